"""What is known of one endpoint, for all subscriptions of a tenant that are pushed to it here: how
much it takes, whether it works, what it asked for. Pure; times are seconds of a monotonic clock.

Each of four may hold requests back: the breaker, a pause it asked for (`Retry-After`), a rate or a
concurrency it asked for (`Packetboat-…` headers, until they expire), and the limiter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge.breaker import State
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.breaker import EndpointBreaker
from subscribe_forwarder.push.limiter import Limiter
from subscribe_forwarder.push.verdict import Outcome, Throttle, Verdict
from subscribe_forwarder.state.rate import TokenBucket
from subscribe_forwarder.throttling.throttling import Restraint

Wake = Callable[[], bool]
_PORTS = {"https": 443, "http": 80}
_ANY = 2**31
RATE_BURST_S = 0.25
"""A rate that is asked for is kept in spans of that length."""


class EndpointKey(NamedTuple):
    """Scheme, host and port of a url, and the tenant."""

    tenant_id: bytes
    origin: str


def endpoint_key(tenant_id: bytes, url: str) -> EndpointKey:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    port = parts.port or _PORTS.get(scheme, 0)
    return EndpointKey(tenant_id, f"{scheme}://{(parts.hostname or '').lower()}:{port}")


def _from_now(seconds: float) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=max(0.0, seconds))).replace(microsecond=0)


class Endpoint:
    """Every `begin` is followed by one `ended`."""

    def __init__(self, key: EndpointKey, now_s: float, rng: random.Random | None = None) -> None:
        self.key = key
        self.limiter = Limiter(now_s)
        self.breaker = EndpointBreaker(rng)
        self.last_error: str | None = None
        self._pause_until_s = now_s
        self._busy_s = float("-inf")
        self._bucket: TokenBucket | None = None
        self._concurrency: int | None = None
        self._throttled_until_s = now_s
        self.waiting: dict[Wake, None] = {}
        """Who wants to begin a request, in the order in which they came."""

    def room(self, now_s: float) -> int:
        """How many requests of one message may begin now."""
        if now_s < self._pause_until_s:
            return 0
        tries = self.breaker.room(now_s)
        if tries is not None:
            return tries
        self._forget_throttle(now_s)
        room = self.limiter.room(now_s)
        if self._concurrency is not None:
            room = min(room, self._concurrency - self.limiter.in_flight)
        if self._bucket is not None and room > 0:
            room = self._bucket.room(room, now_s)
        return max(0, room)

    def ahead(self, now_s: float) -> int:
        """How many messages may be leased beyond what `room` lets go: none while it is held back
        or not known to work."""
        if now_s < self._pause_until_s or self.breaker.state is not State.CLOSED:
            return 0
        ahead = int(self.limiter.limit)
        if self._concurrency is not None:
            ahead = min(ahead, self._concurrency)
        if self._bucket is not None:
            ahead = min(ahead, int(self._bucket.per_second * RATE_BURST_S))
        return ahead

    def shut(self, now_s: float) -> bool:
        """Nothing may begin for now, whatever ends."""
        return now_s < self._pause_until_s or (
            self.breaker.state is State.OPEN and self.breaker.room(now_s) == 0
        )

    def messages(self, wanted: int, now_s: float) -> int:
        """Of a request that may begin: how many messages it may carry."""
        if self.breaker.state is not State.CLOSED:
            return 1
        if self._bucket is None:
            return wanted
        return max(1, self._bucket.room(wanted, now_s))

    def due_s(self, now_s: float) -> float | None:
        """When there is room though nothing ends; None: an end is waited for. May be early."""
        if now_s < self._pause_until_s:
            return self._pause_until_s
        due_s = self.breaker.due_s(now_s)
        if due_s is not None or self.breaker.state is not State.CLOSED:
            return due_s
        if self._bucket is not None and not self._bucket.room(1, now_s):
            return self._bucket.due_s(1, now_s)
        return self.limiter.due_s(now_s)

    def begin(self, messages: int, now_s: float) -> None:
        """A request with so many messages leaves."""
        was = self.breaker.state
        self.breaker.began(now_s)
        self._count_turn(was)
        self.limiter.began()
        if self._bucket is not None:
            self._bucket.take(messages, now_s)

    def ended(self, began_s: float, verdict: Verdict, now_s: float) -> None:
        was = self.breaker.state
        well = verdict.well
        if verdict.outcome is Outcome.BUSY:
            if began_s < self._busy_s:
                well = None  # one answer of all that were on their way is enough
            else:
                self._busy_s = now_s
        self.limiter.ended(began_s, verdict.load, now_s)
        closed = self.breaker.ended(began_s, well=well, now_s=now_s)
        if closed:
            self.limiter.restart(now_s)
        if verdict.detail:
            self.last_error = verdict.detail
        if verdict.retry_after_s:
            metrics.decisions.labels("retry_after").inc()
            self._pause_until_s = max(self._pause_until_s, now_s + verdict.retry_after_s)
        if verdict.throttle is not None:
            self._throttle(verdict.throttle, now_s)
        self._count_turn(was)

    def reset(self, now_s: float) -> None:
        """Somebody says that it works again."""
        self._pause_until_s = now_s
        was = self.breaker.state
        self.breaker.reset(now_s)
        self._count_turn(was)
        self.limiter.restart(now_s)

    def status(self, now_s: float) -> dict[str, Any]:
        """For people."""
        self._forget_throttle(now_s)
        return {
            "breaker": self.breaker.state.name.lower(),
            "breaker_reason": self.breaker.reason or None,
            "limit": round(self.limiter.limit, 4),
            "in_flight": self.limiter.in_flight,
            "paused_seconds": round(max(0.0, self._pause_until_s - now_s), 3),
            "max_rate": None if self._bucket is None else self._bucket.per_second,
            "max_concurrency": self._concurrency,
            "last_error": self.last_error,
        }

    def throttles(self, now_s: float) -> list[Restraint]:
        """What holds requests back, beside the limit that is found by trying."""
        self._forget_throttle(now_s)
        found: list[Restraint] = []
        asked = "the endpoint asked for it"
        until = _from_now(self._throttled_until_s - now_s)
        if self._bucket is not None:
            rate = self._bucket.per_second
            found.append(Restraint("endpoint_messages_per_second", asked, rate, until))
        if self._concurrency is not None:
            found.append(Restraint("endpoint_requests", asked, self._concurrency, until))
        if now_s < self._pause_until_s:
            pause = _from_now(self._pause_until_s - now_s)
            found.append(Restraint("endpoint_pause", asked, 0.0, pause))
        if self.breaker.state is not State.CLOSED:
            why = self.breaker.reason or "it fails"
            found.append(Restraint("endpoint_breaker", why, 0.0, None))
        return found

    def _count_turn(self, was: State) -> None:
        if self.breaker.state is not was:
            metrics.decisions.labels(f"breaker_{self.breaker.state.name.lower()}").inc()

    def _throttle(self, asked: Throttle, now_s: float) -> None:
        metrics.decisions.labels("throttle").inc()
        self._throttled_until_s = now_s + asked.for_s
        self._concurrency = asked.concurrency
        rate = asked.messages_per_second
        if rate is None:
            self._bucket = None
        elif self._bucket is None or self._bucket.per_second != rate:
            self._bucket = TokenBucket(rate, now_s)
            self._bucket.take(int(self._bucket.burst * (1 - RATE_BURST_S)), now_s)

    def _forget_throttle(self, now_s: float) -> None:
        if now_s >= self._throttled_until_s:
            self._bucket = self._concurrency = None
