"""Holds the state of one subscription's endpoint: whether it works, what slows its requests.

Pure; times are seconds of a monotonic clock. The breaker is of this subscription alone, so a path
that fails stops no other path of its origin. All else is of the origin (origin.py): a pause it
asked for (`Retry-After`), a rate or a concurrency it asked for (`Packetboat-…` headers, until they
expire), the limiter, and its silence.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from edge.breaker import State
from openapi.flow import Throttle
from openapi.push import Breaker, PushStatus
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.breaker import EndpointBreaker
from subscribe_forwarder.push.limiter import Limiter, Load
from subscribe_forwarder.push.origin import EndpointKey, Origin, endpoint_key
from subscribe_forwarder.push.verdict import Verdict

__all__ = ["Endpoint", "EndpointKey", "Wake", "endpoint_key"]

Wake = Callable[[], bool]
_BREAKERS: dict[State, Breaker] = {
    State.CLOSED: "closed",
    State.HALF_OPEN: "half_open",
    State.OPEN: "open",
}
_SILENT = "its origin answers none of the subscriptions that are pushed there"


class Endpoint:
    """Counts the requests to one endpoint: every `begin` is followed by one `ended`."""

    def __init__(
        self,
        key: EndpointKey,
        now_s: float,
        rng: random.Random | None = None,
        origin: Origin | None = None,
    ) -> None:
        """Make an endpoint; `origin`: None where no other subscription has one there."""
        self.key = key
        self.origin = origin or Origin(key, now_s)
        self.breaker = EndpointBreaker(rng)
        self.last_error: str | None = None
        self._busy_s = float("-inf")

    @property
    def limiter(self) -> Limiter:
        return self.origin.limiter

    def room(self, now_s: float) -> int:
        """Return how many requests of one message may begin now."""
        tries = self.breaker.room(now_s)
        if tries == 0:
            return 0
        room = self.origin.room(now_s)
        return room if tries is None else min(tries, room)

    def ahead(self, now_s: float) -> int:
        """Return how many messages may be leased beyond those that `room` allows.

        None may while the endpoint is held back or not known to work.
        """
        doubtful = self.origin.silent or self.breaker.state is not State.CLOSED
        if doubtful or now_s < self.origin.pause_until_s:
            return 0
        return self.origin.ahead()

    def shut(self, now_s: float) -> bool:
        """Return whether no request may begin now, even if others end."""
        return (
            now_s < self.origin.pause_until_s
            or (self.breaker.state is State.OPEN and self.breaker.room(now_s) == 0)
            or (self.origin.silent and self.origin.room(now_s) == 0)
        )

    def messages(self, wanted: int, now_s: float) -> int:
        """Return how many messages the next request may carry."""
        if self.breaker.state is not State.CLOSED:
            return 1
        return self.origin.messages(wanted, now_s)

    def due_s(self, now_s: float) -> float | None:
        """Return when there is room though nothing ends; None: an end is waited for.

        The time may be early.
        """
        tries = self.breaker.room(now_s)
        own_s = self.breaker.due_s(now_s)
        if tries == 0 and own_s is None:
            return None
        due_s = self.origin.due_s(now_s)
        if due_s is None:
            return own_s if self.origin.room(now_s) else None
        return due_s if own_s is None else max(own_s, due_s)

    def begin(self, messages: int, now_s: float) -> None:
        """Count a request that leaves."""
        was = self.breaker.state
        self.breaker.began(now_s)
        self._count_turn(was)
        self.origin.begin(messages, now_s)

    def ended(self, began_s: float, verdict: Verdict, now_s: float) -> bool:
        """Count a request that ended; return whether the origin was silent until now."""
        was, origin = self.breaker.state, self.origin
        well, load = verdict.well, verdict.load
        if verdict.outcome == "busy":
            if began_s < self._busy_s:
                well = None  # one answer of all that were on their way is enough
            else:
                self._busy_s = now_s
        if load is Load.TOO_MUCH and was is not State.CLOSED:
            load = Load.NOTHING  # others need not be sent less for it
        origin.limiter.ended(began_s, load, now_s)
        spoke = origin.ended(began_s, well=well, now_s=now_s)
        closed = self.breaker.ended(began_s, well=well, now_s=now_s)
        if closed and origin.is_alone(self):
            origin.limiter.restart(now_s)
        if was is not State.OPEN and self.breaker.state is State.OPEN:
            origin.breaker_opened(now_s, was_closed=was is State.CLOSED)
        if verdict.detail:
            self.last_error = verdict.detail
        if verdict.retry_after_s:
            origin.pause(verdict.retry_after_s, now_s)
        if verdict.throttle is not None:
            origin.throttle(verdict.throttle, now_s)
        self._count_turn(was)
        return spoke

    def reset(self, now_s: float) -> None:
        """Somebody says that it works again."""
        was = self.breaker.state
        self.breaker.reset(now_s)
        self._count_turn(was)
        self.origin.reset(now_s)

    def tell(self, shown: PushStatus, now_s: float) -> None:
        """Write the state of the endpoint into the status that people see."""
        shown.breaker = _BREAKERS[self.breaker.state]
        shown.breaker_reason = self.breaker.reason or (_SILENT if self.origin.silent else None)
        self.origin.tell(shown, now_s)
        shown.last_error = self.last_error

    def throttles(self, now_s: float) -> list[Throttle]:
        """Return the restraints of requests, beside the limit that is found by trying."""
        found = self.origin.throttles(now_s)
        if self.breaker.state is not State.CLOSED:
            why = self.breaker.reason or "it fails"
            found.append(Throttle("endpoint_breaker", why, 0.0, None))
        elif self.origin.silent:
            found.append(Throttle("endpoint_breaker", _SILENT, 0.0, None))
        return found

    def _count_turn(self, was: State) -> None:
        """Count a change of the breaker's state."""
        if self.breaker.state is not was:
            metrics.decisions.labels(f"breaker_{self.breaker.state.name.lower()}").inc()
