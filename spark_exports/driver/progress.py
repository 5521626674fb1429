"""The progress of a run, which the runner gets once a second, also as a sign of life."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Self

from pyspark.accumulators import Accumulator

from spark_exports.driver.lines import Lines
from spark_exports.order import Progress

PERIOD_S = 1.0
log = logging.getLogger("packetboat.driver")


class Reporter:
    """A thread that reports progress, from `with` to its end."""

    def __init__(self, lines: Lines, period_s: float = PERIOD_S) -> None:
        self._lines = lines
        self._period_s = period_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)
        self._told = threading.Lock()
        self._stage = "starting"
        self._of_messages = 0
        self._before = (0, 0)
        self._tasks: tuple[Accumulator[int], Accumulator[int]] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def stage(self, stage: str, *, of_messages: int | None = None) -> None:
        """Begin a stage, which is reported at once and logged."""
        with self._told:
            self._stage = stage
            if of_messages is not None:
                self._of_messages = of_messages
        log.info("stage: %s", stage)
        self._lines.say(self._progress())

    def count(self, messages: Accumulator[int], size_bytes: Accumulator[int], before: int) -> None:
        """Set the accumulators of the tasks; `before` messages were done earlier."""
        with self._told:
            self._tasks = (messages, size_bytes)
            self._before = (before, 0)

    def _progress(self) -> Progress:
        with self._told:
            messages, size_bytes = self._before
            if self._tasks is not None:
                messages += self._tasks[0].value
                size_bytes += self._tasks[1].value
            return Progress(self._stage, messages, size_bytes, self._of_messages)

    def _tell(self) -> None:
        while not self._ended.wait(self._period_s):
            self._lines.say(self._progress())
