"""How many publishes may be under way at once, found out by trying. Pure.

As many as come while none queues. When they do (sojourn.py), fewer: what they would wait for is the
same store, and who waits there stands in the way of others on the same loop. Throughput needs but
so many as make full batches; so the number falls to that until they don't stand for long, and grows
slowly while they don't.
"""

from __future__ import annotations

LEAST = 128
LEAST_SHARED = 48
"""Where somebody publishes little beside others: smaller batches, for answers in half the time."""
CALM_S = 3.0
CUT_S = 0.3
_GROWTH_PER_S = 0.1


class Crowd:
    """`tick` it some times a second."""

    __slots__ = ("_calm_s", "_limit", "_since_cut_s")

    def __init__(self) -> None:
        self._limit: float | None = None
        self._calm_s = self._since_cut_s = 0.0

    @property
    def limit(self) -> float | None:
        """None: as many as come."""
        return self._limit

    def tick(self, *, running: int, queued: float, held: bool, shared: bool, took_s: float) -> None:
        """So many run; `queued`: how many times too long they stand, 0 if they don't; `held`: some
        were refused for it; `shared`: some tenant publishes little beside others."""
        self._since_cut_s += took_s
        limit = self._limit
        if queued > 0:
            self._calm_s = 0.0
            if limit is None or self._since_cut_s >= CUT_S:
                now = running if limit is None else min(running, limit)
                # At the same throughput, so many fewer stand for so much shorter.
                self._limit = max(LEAST_SHARED if shared else LEAST, now / (1.0 + queued))
                self._since_cut_s = 0.0
            return
        if limit is None:
            return
        self._calm_s = 0.0 if held else self._calm_s + took_s
        if self._calm_s >= CALM_S:
            self._limit = None
        elif held:
            self._limit = limit * (1.0 + _GROWTH_PER_S * took_s)
