"""How long requests take that all go the same way, and whether that is because they queue. Pure.

The loop may be on time while what it began waits behind more than the store takes. So publishes are
timed: the least of half a second is what even the luckiest waited. It counts as a queue where it is
above `TARGET_S`, several times of what was least in the last minute or so (a slow disk is no
queue), and many are under way.
"""

from __future__ import annotations

import math
from collections import deque

TARGET_S = 0.004
TIMES = 4.0
CROWD = 16
STANDING_TICKS = 5
_FORGETS_S = 60.0
"""The least that is known grows by its own size in so long, until it is found again."""


class Sojourn:
    """`note` each, `tick` some times a second."""

    __slots__ = ("_base_s", "_least_s", "_recent_s")

    def __init__(self) -> None:
        self._least_s = math.inf
        self._recent_s: deque[float] = deque(maxlen=STANDING_TICKS)
        self._base_s = math.inf

    def note(self, seconds: float) -> None:
        """One has ended after so long."""
        if seconds < self._least_s:
            self._least_s = seconds

    def tick(self, took_s: float, running: int) -> float:
        """From 0, nothing queues, to 1, all wait for twice as long as they may."""
        least_s, self._least_s = self._least_s, math.inf
        if least_s < math.inf:
            self._recent_s.append(least_s)
            self._base_s = min(self._base_s * (1 + took_s / _FORGETS_S), least_s)
        elif running < CROWD:
            self._recent_s.clear()
        if running < CROWD or len(self._recent_s) < STANDING_TICKS:
            return 0.0
        target_s = max(TARGET_S, TIMES * self._base_s)
        return min(1.0, max(0.0, min(self._recent_s) / target_s - 1.0))
