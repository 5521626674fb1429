"""Measures the queue delay of publishes, and decides whether they queue. Pure.

The loop may be on time while its requests wait for a slow store. So publishes are timed: the queue
delay is the least of the averages of the ticks in half a second. Publishes queue if this delay is
above a target, and above several times the fastest publish in the last minute or so (a slow disk is
no queue), and many publishes run. A tenant alone waits only for itself, and full batches are worth
some waiting; a tenant that publishes little must not wait for them.
"""

from __future__ import annotations

import math
from collections import deque

TARGET_S = 0.1
SHARED_TARGET_S = 0.005
TIMES = 3.0
MANY = 128
STANDING_TICKS = 5
_FORGETS_S = 60.0
"""Seconds in which the least known time grows by its own size, until it is measured again."""


class QueueDelay:
    """Measures the queue delay: `note` each publish, `tick` some times a second."""

    __slots__ = ("_base_s", "_count", "_least_s", "_recent_s", "_sum_s")

    def __init__(self) -> None:
        self._least_s = math.inf
        self._sum_s = 0.0
        self._count = 0
        self._recent_s: deque[float] = deque(maxlen=STANDING_TICKS)
        self._base_s = math.inf

    def note(self, seconds: float) -> None:
        """Note that a publish has ended after `seconds`."""
        self._sum_s += seconds
        self._count += 1
        if seconds < self._least_s:
            self._least_s = seconds

    def tick(self, took_s: float, running: int, *, shared: bool, limited: bool = False) -> float:
        """Update the delays; return 0 if nothing queues, else the factor by which delays exceed the
        target, less one.

        `shared`: some tenant publishes little beside others. `limited`: a publish limit holds; then
        few publishes can be a queue, too.
        """
        if self._count:
            self._recent_s.append(self._sum_s / self._count)
            self._base_s = min(self._base_s * (1 + took_s / _FORGETS_S), self._least_s)
            self._least_s, self._sum_s, self._count = math.inf, 0.0, 0
        elif running < MANY:
            self._recent_s.clear()
        if (running < MANY and not limited) or len(self._recent_s) < STANDING_TICKS:
            return 0.0
        target_s = max(SHARED_TARGET_S if shared else TARGET_S, TIMES * self._base_s)
        return max(0.0, min(self._recent_s) / target_s - 1.0)
