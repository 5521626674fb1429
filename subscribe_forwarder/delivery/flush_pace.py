"""Paces the flushes of acks: at once, unless many cursors change one after the other.

A thousand consumers that each ack now and then would make a flush of each ack. So after a flush the
next one waits until a share of all cursors that acks have changed lately has come together, and no
longer than `MAX_WAIT_S` after the last one's end. An ack after a pause does not wait, nor do the
acks of a few cursors, however fast they come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from metadata.types import CursorKey

LATELY_S = 0.25
"""Cursors that were flushed in this last period, or in the one before."""
SHARE = 16
"""A flush begins when this part of them has changed: one in `SHARE`."""
MAX_WAIT_S = 0.02


class FlushPace:
    """Paces one flush loop, whose flushes never overlap."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: set[CursorKey] = set()
        self._lately: set[CursorKey] = set()
        self._period_s = 0.0
        self._ended_s = -MAX_WAIT_S

    def ended(self, cursors: Collection[CursorKey]) -> None:
        """Note the end of a flush, and the cursors in it that callers waited for."""
        now_s = self._ended_s = self._clock()
        if now_s - self._period_s >= LATELY_S:
            over = now_s - self._period_s >= 2 * LATELY_S
            self._before = set() if over else self._lately
            self._lately = set()
            self._period_s = now_s
        self._lately.update(cursors)

    def wait_s(self, cursors: int) -> float:
        """Return the seconds that a flush waits for more, with callers for `cursors` cursors."""
        if SHARE * cursors >= max(len(self._before), len(self._lately)):
            return 0.0
        return max(0.0, self._ended_s + MAX_WAIT_S - self._clock())
