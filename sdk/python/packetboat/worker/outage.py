"""Outages of the server: each is reported once, and pauses grow from try to try."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from packetboat.errors import (
    ConnectionFailed,
    Overloaded,
    PacketboatError,
    ServerError,
    Unavailable,
    UnknownOutcome,
    UntrustedServer,
)
from packetboat.worker.events import WorkerEvents

FIRST_S = 0.05
MAX_S = 10.0
_log = logging.getLogger("packetboat.worker")


def is_passing(error: PacketboatError) -> bool:
    """Return whether the call may succeed later without any change by an operator."""
    kinds = (ConnectionFailed, Overloaded, Unavailable, UnknownOutcome, ServerError)
    return isinstance(error, kinds) and not isinstance(error, UntrustedServer)


class Backoff:
    """Pauses between tries: full jitter, longer each time."""

    def __init__(self, max_s: float = MAX_S) -> None:
        self._max_s = max_s
        self._tries = 0

    def pause_s(self, error: PacketboatError) -> float:
        pause_s = random.uniform(0, min(self._max_s, FIRST_S * 2.0 ** min(self._tries, 30)))
        if isinstance(error, Overloaded | Unavailable):
            pause_s += error.retry_after_s or 0.0
        self._tries += 1
        return pause_s

    def reset(self) -> None:
        self._tries = 0


class Outage:
    """The outages of the server of one subscription, as its pulls see them."""

    def __init__(self, subscription: str, events: WorkerEvents, clock: Callable[[], float]) -> None:
        self._subscription = subscription
        self._events = events
        self._clock = clock
        self._since_s: float | None = None

    def failed(self, error: PacketboatError) -> None:
        if self._since_s is None:
            self._since_s = self._clock()
            _log.warning("%s: no messages for now: %s", self._subscription, error)
            self._events.outage(self._subscription, error)

    def answered(self) -> None:
        if self._since_s is not None:
            seconds, self._since_s = self._clock() - self._since_s, None
            _log.info("%s: the server answers again, after %.1f s", self._subscription, seconds)
            self._events.recovered(self._subscription, seconds)
