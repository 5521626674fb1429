"""How long publishes take, which all go the same way, and whether that is because they queue. Pure.

The loop may be on time while what it began waits behind more than the store takes. So publishes are
timed: the least of what they took on average in the ticks of half a second is how long they stand.
It counts as a queue where it is above a target, several times of what the luckiest took in the last
minute or so (a slow disk is no queue), and many are under way. A tenant alone waits for nobody but
itself, and full batches are worth some waiting; who publishes little must not wait for it.
"""

from __future__ import annotations

import math
from collections import deque

TARGET_S = 0.1
SHARED_TARGET_S = 0.005
TIMES = 3.0
CROWD = 128
STANDING_TICKS = 5
_FORGETS_S = 60.0
"""The least that is known grows by its own size in so long, until it is found again."""


class Sojourn:
    """`note` each, `tick` some times a second."""

    __slots__ = ("_base_s", "_count", "_least_s", "_recent_s", "_sum_s")

    def __init__(self) -> None:
        self._least_s = math.inf
        self._sum_s = 0.0
        self._count = 0
        self._recent_s: deque[float] = deque(maxlen=STANDING_TICKS)
        self._base_s = math.inf

    def note(self, seconds: float) -> None:
        """One has ended after so long."""
        self._sum_s += seconds
        self._count += 1
        if seconds < self._least_s:
            self._least_s = seconds

    def tick(self, took_s: float, running: int, *, shared: bool, limited: bool = False) -> float:
        """0, nothing queues, or by how many times they stand for longer than they may. `shared`:
        some tenant publishes little beside others. `limited`: how many may be under way is; then
        few may stand as well."""
        if self._count:
            self._recent_s.append(self._sum_s / self._count)
            self._base_s = min(self._base_s * (1 + took_s / _FORGETS_S), self._least_s)
            self._least_s, self._sum_s, self._count = math.inf, 0.0, 0
        elif running < CROWD:
            self._recent_s.clear()
        if (running < CROWD and not limited) or len(self._recent_s) < STANDING_TICKS:
            return 0.0
        target_s = max(SHARED_TARGET_S if shared else TARGET_S, TIMES * self._base_s)
        return max(0.0, min(self._recent_s) / target_s - 1.0)
