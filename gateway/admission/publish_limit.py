"""The publish limit, found by trying. Pure.

While no publish queues, there is no limit. When publishes queue (queue_delay.py), the limit lowers
their number: they would wait for the same store, and publishes that wait there stand in the way of
other requests on the same loop. Throughput needs only enough publishes for full batches; so the
limit falls until publishes no longer wait for long, and then grows slowly.
"""

from __future__ import annotations

LEAST = 128
LEAST_SHARED = 48
"""The least limit while a tenant publishes little beside others: smaller batches, for
answers in half the time.
"""
CALM_S = 3.0
CUT_S = 0.3
_GROWTH_PER_S = 0.1


class PublishLimit:
    """`tick` it some times a second."""

    __slots__ = ("_calm_s", "_limit", "_since_cut_s")

    def __init__(self) -> None:
        self._limit: float | None = None
        self._calm_s = self._since_cut_s = 0.0

    @property
    def limit(self) -> float | None:
        """The number of publishes that may run at once; None means no limit."""
        return self._limit

    def tick(self, *, running: int, queued: float, held: bool, shared: bool, took_s: float) -> None:
        """Adapt the limit to the last `took_s` seconds.

        `running` is the number of publishes that run. `queued` says by which factor their delay is
        over the target, 0 if it is not. `held`: some were refused because of the limit. `shared`:
        some tenant publishes little beside others.
        """
        self._since_cut_s += took_s
        limit = self._limit
        if queued > 0:
            self._calm_s = 0.0
            if limit is None or self._since_cut_s >= CUT_S:
                now = running if limit is None else min(running, limit)
                # At the same throughput, the delay falls by the same factor as the number.
                self._limit = max(LEAST_SHARED if shared else LEAST, now / (1.0 + queued))
                self._since_cut_s = 0.0
            return
        if limit is None:
            return
        if not shared:
            self._limit = limit = max(limit, LEAST)
        self._calm_s = 0.0 if held else self._calm_s + took_s
        if self._calm_s >= CALM_S:
            self._limit = None
        elif held:
            self._limit = limit * (1.0 + _GROWTH_PER_S * took_s)
