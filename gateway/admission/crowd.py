"""How many publishes may be under way at once, found out by trying. Pure.

As many as come while none queues. When they do (sojourn.py), fewer: what they would wait for is the
same store, and who waits there stands in the way of others on the same loop. Throughput needs but
so many as make full batches, `LEAST`; so where more wait, the number falls until the wait is short,
and grows slowly while it is.
"""

from __future__ import annotations

LEAST = 24
CALM_S = 3.0
CUT_S = 0.3
_CUT = 0.3
_GROWTH_PER_S = 0.1


class Crowd:
    """`tick` it some times a second."""

    __slots__ = ("_calm_s", "_since_cut_s", "limit")

    def __init__(self) -> None:
        self.limit: int | None = None
        """None: as many as come."""
        self._calm_s = self._since_cut_s = 0.0

    def tick(self, *, running: int, queued: float, held: bool, took_s: float) -> None:
        """So many run; `queued`: from 0, they don't queue, to 1; `held`: some were refused."""
        self._since_cut_s += took_s
        if queued > 0:
            self._calm_s = 0.0
            if self.limit is None or self._since_cut_s >= CUT_S:
                now = running if self.limit is None else min(running, self.limit)
                self.limit = max(LEAST, int(now * (1.0 - _CUT * queued)))
                self._since_cut_s = 0.0
            return
        if self.limit is None:
            return
        self._calm_s = 0.0 if held else self._calm_s + took_s
        if self._calm_s >= CALM_S:
            self.limit = None
        elif held and self._since_cut_s >= CUT_S:
            self.limit += max(1, round(self.limit * _GROWTH_PER_S * took_s))
