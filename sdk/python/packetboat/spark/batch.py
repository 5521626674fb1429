"""Reading with `spark.read`: what there is when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from packetboat.spark.planning import Planner, sender_of
from packetboat.spark.ranges import Split, cut
from packetboat.spark.task import Task

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Plans on the driver, and reads in workers."""

    def __init__(self, task: Task, parallelism: int | None) -> None:
        self._task = task
        self._parallelism = parallelism

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each task, in the order of topics, partitions, lanes and
        offsets.
        """
        options = self._task.options
        with sender_of(options) as sender:
            planned = self.planned(Planner(sender, options))
        return cut(planned, options.rows_per_split, self._parallelism)

    def planned(self, planner: Planner) -> list[Split]:
        """Return the splits to read; here, all that the options name."""
        return planner.splits()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition in a worker.

        Where there is nothing to read, Spark passes a partition of its own.
        """
        if isinstance(partition, Split):
            yield from self._task.read(partition)
