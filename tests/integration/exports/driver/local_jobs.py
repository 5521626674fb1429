"""Jobs without Spark: the same tasks, one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from packetboat.models.export_runs import LaneRange

from spark_exports.driver.progress import Reporter
from spark_exports.driver.slice_task import Outcome
from spark_exports.driver.spark import Jobs
from spark_exports.driver.tally_task import TallyTask
from tests.integration.exports.driver.fake_log import Log

T = TypeVar("T")
R = TypeVar("R")


class LocalJobs(Jobs):
    """`messages` are batches by slice."""

    def __init__(self, log: Log, reporter: Reporter) -> None:
        self._log = log
        super().__init__(None, log, reporter)  # type: ignore[arg-type]  # nothing here uses it

    def cancel(self) -> None:
        pass

    def messages(self, slices: Sequence[LaneRange]) -> Any:
        return self._log.batches(slices)

    @contextmanager
    def kept_messages(self, slices: Sequence[LaneRange]) -> Iterator[Any]:
        yield self.messages(slices)

    def outcomes(self, messages: Any, task: Callable[..., Any], done: int = 0) -> list[Outcome]:
        work = task(_count)
        return [
            msgspec.msgpack.decode(batch.column(0)[0].as_py(), type=Outcome)
            for batches in messages
            for batch in work(iter(batches))
        ]

    def tallies(self, slices: Sequence[LaneRange]) -> list[pa.RecordBatch]:
        return list(TallyTask(_count)(one for part in self.messages(slices) for one in part))

    def run_tasks(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items]


def _count(messages: int, size_bytes: int) -> None:
    pass
