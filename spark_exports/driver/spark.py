"""Spark, as a run uses it: tasks over the messages of slices, and tasks over any items.

Nothing is decoded by Spark itself. Its `from_json` (7 µs a row) needs the types found before, in a
pass of its own (5 µs) over messages that are kept for it (4 µs), where the readers of `bodies` take
8 µs to Arrow in one pass; and it reports neither that it rounded a number nor that a member
occurred twice. Spark is used for the part that it does well: many tasks, on one machine or on many,
each tried again if it is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa
from packetboat.models.export_runs import LaneRange

from spark_exports.driver.errors import Stopped
from spark_exports.driver.portions import portions
from spark_exports.driver.slice_task import OUTCOME, Outcome, SliceTask
from spark_exports.driver.tally_task import TALLY_COLUMNS, TallyTask
from spark_exports.session import sees_our_files

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from spark_exports.driver.platform import Platform
    from spark_exports.driver.progress import Reporter

T = TypeVar("T")
R = TypeVar("R")
Seen = Callable[[int, int], None]
"""Function by which tasks report counts of messages and of bytes of bodies."""


class Messages:
    """The messages of some slices, as a DataFrame for each job.

    A job is planned when it is its turn, so with the token of that time. With `keeps`, messages
    that were read once are not read again.
    """

    def __init__(
        self,
        read: Callable[[Sequence[LaneRange]], DataFrame],
        jobs: Callable[[], Iterator[Sequence[LaneRange]]],
        *,
        keeps: bool = False,
    ) -> None:
        self._read = read
        self._jobs = jobs
        self._keeps = keeps
        self._kept: list[DataFrame] = []

    def frames(self) -> Iterator[DataFrame]:
        """Yield all of them, in order; a caller must go on to the end."""
        from pyspark import StorageLevel

        if self._kept:
            yield from self._kept
            return
        for slices in self._jobs():
            frame = self._read(slices)
            if self._keeps:
                self._kept.append(frame.persist(StorageLevel.DISK_ONLY))
            yield frame

    def forget(self) -> None:
        """Drop the messages that were kept."""
        for frame in self._kept:
            frame.unpersist()


class Jobs:
    """The jobs of one run; `cancel` may be called from any thread.

    `is_paced` says that tasks share the read rate of the export, so more at once are no faster.
    """

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        reporter: Reporter,
        *,
        is_paced: bool = False,
    ) -> None:
        self.spark = spark
        self.platform = platform
        self._reporter = reporter
        self._is_paced = is_paced
        self._is_cancelled = threading.Event()

    def cancel(self) -> None:
        """Cancel the jobs under way, and all later ones."""
        self._is_cancelled.set()
        self.spark.sparkContext.cancelAllJobs()

    def messages(self, slices: Sequence[LaneRange], *, keeps: bool = False) -> Messages:
        """Return the messages of slices: in one job on a local master, in several on a cluster."""
        if sees_our_files(self.spark):
            return Messages(self._read, lambda: iter([slices]), keeps=keeps)
        first = 1 if self._is_paced else self.spark.sparkContext.defaultParallelism
        return Messages(self._read, partial(portions, slices, first), keeps=keeps)

    def _read(self, slices: Sequence[LaneRange]) -> DataFrame:
        if self._is_cancelled.is_set():
            raise Stopped("cancelled between two jobs")
        return self.platform.messages(self.spark, slices)

    @contextmanager
    def kept_messages(self, slices: Sequence[LaneRange]) -> Iterator[Messages]:
        """Return messages that are read from the platform once, however often they are used."""
        messages = self.messages(slices, keeps=True)
        try:
            yield messages
        finally:
            messages.forget()

    def outcomes(
        self, messages: Messages, task: Callable[[Seen], SliceTask], done: int = 0
    ) -> list[Outcome]:
        """Return the outcomes of tasks.

        `task` makes a task for the function that gets its counts; `done` messages were read before.
        """
        work = task(self._counter(done))
        return [
            msgspec.msgpack.decode(bytes(row.outcome), type=Outcome)
            for frame in messages.frames()
            for row in frame.mapInArrow(work, OUTCOME).collect()
        ]

    def tallies(self, slices: Sequence[LaneRange]) -> list[pa.RecordBatch]:
        """Return the tallies of the messages, in parts."""
        task = TallyTask(self._counter(0))
        return [
            batch
            for frame in self.messages(slices).frames()
            for batch in frame.mapInArrow(task, TALLY_COLUMNS).toArrow().to_batches()
        ]

    def _counter(self, done: int) -> Seen:
        context = self.spark.sparkContext
        messages, size_bytes = context.accumulator(0), context.accumulator(0)
        self._reporter.count(messages, size_bytes, done)
        return partial(_add, messages, size_bytes)

    def run_tasks(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a task for each item; results are in the order of items."""
        if not items:
            return []
        return self.spark.sparkContext.parallelize(list(items), len(items)).map(work).collect()


def _add(
    messages: Accumulator[int], size_bytes: Accumulator[int], count: int, count_bytes: int
) -> None:
    messages.add(count)
    size_bytes.add(count_bytes)
