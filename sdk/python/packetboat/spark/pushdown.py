"""The data source with push-down of conditions. Spark refuses a reader that has it unless a setting
of the session allows it, so this one is chosen where it does."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from packetboat.spark.batch import BatchReader
from packetboat.spark.conditions import Conditions
from packetboat.spark.planning import Planner
from packetboat.spark.ranges import Split
from packetboat.spark.source import PacketboatDataSource
from packetboat.spark.task import Task


class PushdownReader(BatchReader):
    """Reads what conditions on topic, partition, lane, offset and publish_time leave."""

    def __init__(self, task: Task, parallelism: int | None) -> None:
        super().__init__(task, parallelism)
        self._conditions = Conditions()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Spark is to look at all of them again."""
        self._conditions = Conditions(filters)
        return filters

    def planned(self, planner: Planner) -> list[Split]:
        """Return the parts of the splits that the conditions leave."""
        conditions = self._conditions
        splits = conditions.narrowed(planner.splits())
        return planner.narrowed(splits, conditions.from_time, conditions.before_time)


class PushdownDataSource(PacketboatDataSource):
    """The data source that passes conditions of a query on to the planner."""

    def reader(self, schema: StructType) -> PushdownReader:
        return PushdownReader(self._task(schema), self.parallelism)
