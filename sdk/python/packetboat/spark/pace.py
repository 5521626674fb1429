"""A limit of bytes per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Wait = Callable[[float], object]


def wait(seconds: float) -> None:
    """Wait in a thread that has nothing else to do."""
    threading.Event().wait(seconds)


class Pace:
    """The pace of one task.

    After each piece the task waits until its mean rate is within the limit, whatever the size of
    the piece; it does not catch up on time in which it read nothing.
    """

    def __init__(
        self,
        bytes_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = wait,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._wait = wait
        self._even_s = 0.0
        """The time at which the mean rate of all bytes so far is within the limit."""

    def took(self, count_bytes: int) -> None:
        """Count bytes, and wait if need be."""
        if self._bytes_per_s is None:
            return
        now_s = self._clock()
        self._even_s = max(self._even_s, now_s) + count_bytes / self._bytes_per_s
        if self._even_s > now_s:
            self._wait(self._even_s - now_s)
