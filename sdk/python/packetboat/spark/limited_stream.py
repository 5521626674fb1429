"""Streams of Spark 4.2 and later: a batch has its limit, and AvailableNow its end."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from packetboat.spark.stream import (
    Position,
    StreamReader,
    advanced,
    as_offset,
    position,
    refuse_backwards,
)
from packetboat.spark.task import Task


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Spark asks one of it for as long as a query runs."""

    def __init__(self, task: Task, parallelism: int | None) -> None:
        super().__init__(task, parallelism)
        self._target: Position | None = None
        self._seen: Position | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch, in messages that are examined."""
        most = self._task.options.max_rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the run; messages that come from now on belong to the next run."""
        self._target = self.ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch; `start` itself where nothing is left.

        Raises ReadFailed.
        """
        before = position(start)
        ends = self._seen = self.ends() if self._target is None else self._target
        refuse_backwards(before, ends)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return as_offset(advanced(before, ends, most))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the last known end, from which a query's progress shows its lag."""
        return None if self._seen is None else as_offset(self._seen)
