"""Spark, as a run uses it: tasks over the messages of slices, and tasks over anything.

Nothing is decoded by Spark itself. Its `from_json` (7 µs a row) needs the types found before, in a
pass of its own (5 µs) over messages that are kept for it (4 µs), where the readers of `bodies` take
8 µs to Arrow in one pass; and it says neither that it rounded a number nor that a member occurred
twice. Spark's part is what it is good at: many tasks, on one machine or on many, each tried again
where it was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa

from spark_exports.driver.slice_task import OUTCOME, Outcome, SliceTask
from spark_exports.driver.tally_task import TALLY_COLUMNS, TallyTask
from spark_exports.order import Range

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from spark_exports.driver.platform import Platform
    from spark_exports.driver.progress import Reporter

T = TypeVar("T")
R = TypeVar("R")
Seen = Callable[[int, int], None]
"""Tasks say so many messages, and bytes of bodies."""


class Jobs:
    """The jobs of one run. `cancel` may be called from any thread."""

    def __init__(self, spark: SparkSession, platform: Platform, reporter: Reporter) -> None:
        self.spark = spark
        self.platform = platform
        self._reporter = reporter

    def cancel(self) -> None:
        self.spark.sparkContext.cancelAllJobs()

    def messages(self, slices: Sequence[Range]) -> DataFrame:
        return self.platform.messages(self.spark, slices)

    @contextmanager
    def kept_messages(self, slices: Sequence[Range]) -> Iterator[DataFrame]:
        """Read from the platform once, however often they are used."""
        from pyspark import StorageLevel

        messages = self.messages(slices).persist(StorageLevel.DISK_ONLY)
        try:
            yield messages
        finally:
            messages.unpersist()

    def outcomes(
        self, messages: DataFrame, task: Callable[[Seen], SliceTask], done: int = 0
    ) -> list[Outcome]:
        """What tasks gave. `task` makes one for where it is to tell its counts; `done`: messages
        that were read before."""
        rows = messages.mapInArrow(task(self._counter(done)), OUTCOME).collect()
        return [msgspec.msgpack.decode(bytes(row.outcome), type=Outcome) for row in rows]

    def tallies(self, slices: Sequence[Range]) -> list[pa.RecordBatch]:
        """Of the messages, in parts."""
        task = TallyTask(self._counter(0))
        table = self.messages(slices).mapInArrow(task, TALLY_COLUMNS).toArrow()
        return list(table.to_batches())

    def _counter(self, done: int) -> Seen:
        context = self.spark.sparkContext
        messages, size_bytes = context.accumulator(0), context.accumulator(0)
        self._reporter.count(messages, size_bytes, done)
        return partial(_add, messages, size_bytes)

    def run_tasks(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """A task for each; results are in the order of items."""
        if not items:
            return []
        return self.spark.sparkContext.parallelize(list(items), len(items)).map(work).collect()


def _add(
    messages: Accumulator[int], size_bytes: Accumulator[int], count: int, count_bytes: int
) -> None:
    messages.add(count)
    size_bytes.add(count_bytes)
