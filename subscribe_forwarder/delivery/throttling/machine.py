"""Throttles all deliveries of this process together, while its event loop is late."""

from __future__ import annotations

import time
from collections.abc import Callable

from edge.pace import Pace
from subscribe_forwarder.delivery.state.rate import TokenBucket
from subscribe_forwarder.delivery.throttling import metrics

FIRST_BURST_S = 0.2


class MachineThrottle:
    """Throttles all deliveries of one process; `tick` it some times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pace = Pace()
        self._bucket: TokenBucket | None = None
        self._went = 0
        self._held = False

    @property
    def active(self) -> bool:
        """Whether it holds deliveries back."""
        return self._bucket is not None

    @property
    def per_second(self) -> float | None:
        return self._pace.per_second

    def tick(self, took_s: float, overloaded: float) -> None:
        """Note `took_s` since the last call, and `overloaded` from 0 (all is on time) to 1."""
        before = self._pace.per_second
        wanted = float("inf") if self._held else float(self._went)
        self._pace.tick(went=self._went, wanted=wanted, took_s=took_s, overloaded=overloaded)
        self._went, self._held = 0, False
        now = self._pace.per_second
        if now is None:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(now, self._clock())
            self._bucket.take(int(self._bucket.burst - now * FIRST_BURST_S), self._clock())
        else:
            self._bucket.set_rate(now, self._clock())
        self._tell(before, now)

    def room(self, wanted: int, now_s: float) -> int:
        """Return how many of `wanted` messages may go now."""
        if self._bucket is None:
            return wanted
        room = self._bucket.room(wanted, now_s)
        self._held |= room < wanted
        return room

    def took(self, count: int, now_s: float) -> None:
        """Count delivered messages, whether or not any were held back."""
        self._went += count
        if self._bucket is not None:
            self._bucket.take(count, now_s)

    def give_back(self, count: int, now_s: float) -> None:
        if self._bucket is not None:
            self._bucket.give_back(count, now_s)

    def due_s(self, wanted: int, now_s: float) -> float | None:
        """Return the time at which `room` will not be 0; None if nothing is held back."""
        return None if self._bucket is None else self._bucket.due_s(wanted, now_s)

    def _tell(self, before: float | None, now: float | None) -> None:
        metrics.pace.set(now or 0.0)
        if before is None and now is not None:
            metrics.changes.labels("began").inc()
        elif before is not None and now is None:
            metrics.changes.labels("ended").inc()
        elif before is not None and now is not None and now < before:
            metrics.changes.labels("cut").inc()
