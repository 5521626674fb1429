"""The data source with push-down of conditions. Spark refuses a reader that has it unless a setting
of the session allows it, so this one is chosen where it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from packetboat.spark.batch import BatchReader
from packetboat.spark.planning import Planner
from packetboat.spark.ranges import Lane, Split, within
from packetboat.spark.source import PacketboatDataSource
from packetboat.spark.task import Task

MARGIN = timedelta(minutes=1)
"""Groups of store nodes stamp times of their own: after a partition has moved, a message may have
an earlier time than one before it, by as much as their clocks differ."""
_MAX_OFFSET = 2**63 - 1


class Conditions:
    """The conditions of one query; a row has to meet all of them.

    They only narrow down the read: Spark checks each row again, so an unknown condition costs time
    and nothing else.
    """

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self._of_lanes: list[Filter] = []
        self._low, self._high = 0, _MAX_OFFSET
        self.from_time: datetime | None = None
        """No row is older."""
        self.before_time: datetime | None = None
        """No row that is as old as this, or younger, is wanted."""
        for each in filters:
            self._add(each)

    def narrowed(self, splits: Iterable[Split]) -> list[Split]:
        """By all but times, which only the server knows the places of."""
        return [
            within(split, self._low, self._high)
            for split in splits
            if all(_holds(each, split.lane) for each in self._of_lanes)
        ]

    def _add(self, each: Filter) -> None:
        (name, *deeper) = getattr(each, "attribute", ("",))
        if deeper:
            return
        if name in ("topic", "partition", "lane"):
            self._of_lanes.append(each)
        elif name == "offset":
            self._add_offset(each)
        elif name == "publish_time" and _is_moment(getattr(each, "value", None)):
            self._add_time(each)

    def _add_offset(self, each: Filter) -> None:
        match each:
            case EqualTo(_, int(value)):
                low, high = value, value + 1
            case GreaterThan(_, int(value)):
                low, high = value + 1, _MAX_OFFSET
            case GreaterThanOrEqual(_, int(value)):
                low, high = value, _MAX_OFFSET
            case LessThan(_, int(value)):
                low, high = 0, value
            case LessThanOrEqual(_, int(value)):
                low, high = 0, value + 1
            case In(_, values) if values and all(isinstance(value, int) for value in values):
                low, high = min(values), max(values) + 1
            case _:
                return
        self._low, self._high = max(self._low, low), min(self._high, high)

    def _add_time(self, each: Filter) -> None:
        value: datetime = each.value  # type: ignore[attr-defined]
        if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
            self.from_time = max(value, self.from_time or value)
        if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
            end = value + MARGIN
            self.before_time = min(end, self.before_time or end)


def _is_moment(value: Any) -> bool:
    """One without a zone is of the session's, which nobody tells."""
    return isinstance(value, datetime) and value.tzinfo is not None


def _holds(each: Filter, lane: Lane) -> bool:
    value = getattr(lane, each.attribute[0])  # type: ignore[attr-defined]
    match each:
        case EqualTo(_, wanted):
            return bool(value == wanted)
        case In(_, wanted):
            return value in wanted
        case GreaterThan(_, wanted):
            return bool(value > wanted)
        case GreaterThanOrEqual(_, wanted):
            return bool(value >= wanted)
        case LessThan(_, wanted):
            return bool(value < wanted)
        case LessThanOrEqual(_, wanted):
            return bool(value <= wanted)
    return True


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
