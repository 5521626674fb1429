"""Holds the state of one origin, for all subscriptions of a tenant that are pushed to it here.

It has how much the origin takes, what it asked for, and whether it answers anybody. Pure; times are
seconds of a monotonic clock.

Whether one path works is its subscription's breaker's to say (endpoint.py). The origin is *silent*
when the last `FAILURES` answers of all its subscriptions were failures and a breaker opens, or the
last `MANY_FAILURES` were. Then no more than one request at a time goes there, and none for
`TRY_EVERY_S` after one that failed, however many subscriptions want to try. A success ends it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from openapi import flow
from openapi.push import PushStatus
from subscribe_forwarder.delivery.state.rate import TokenBucket
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.breaker import FAILURES
from subscribe_forwarder.push.limiter import Limiter
from subscribe_forwarder.push.verdict import Throttle

if TYPE_CHECKING:
    from subscribe_forwarder.push.endpoint import Endpoint, Wake

_PORTS = {"https": 443, "http": 80}
RATE_BURST_S = 0.25
"""A rate that is asked for is kept in spans of that length."""
MANY_FAILURES = 20
TRY_EVERY_S = 1.0


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


class Origin:
    """Counts the requests to one origin: every `begin` is followed by one `ended`."""

    def __init__(self, key: EndpointKey, now_s: float) -> None:
        self.key = key
        self.limiter = Limiter(now_s)
        self.silent = False
        self.pause_until_s = now_s
        self.bucket: TokenBucket | None = None
        self.concurrency: int | None = None
        self.endpoints: dict[bytes, Endpoint] = {}
        """The endpoints by subscription."""
        self.waiting: dict[Wake, Endpoint] = {}
        """The pushers that want to begin a request, in the order in which they came."""
        self._throttled_until_s = now_s
        self._failures = 0
        """The failures of all its subscriptions, in a row."""
        self._silent_s = self._try_s = now_s
        self._trying = 0

    def room(self, now_s: float) -> int:
        """Return how many requests of one message may begin now."""
        if now_s < self.pause_until_s:
            return 0
        if self.silent:
            return int(not self._trying and now_s >= self._try_s)
        self._forget_throttle(now_s)
        room = self.limiter.room(now_s)
        if self.concurrency is not None:
            room = min(room, self.concurrency - self.limiter.in_flight)
        if self.bucket is not None and room > 0:
            room = self.bucket.room(room, now_s)
        return max(0, room)

    def ahead(self) -> int:
        """Return how many messages may be leased beyond those that `room` allows."""
        ahead = int(self.limiter.limit)
        if self.concurrency is not None:
            ahead = min(ahead, self.concurrency)
        if self.bucket is not None:
            ahead = min(ahead, int(self.bucket.per_second * RATE_BURST_S))
        return ahead

    def messages(self, wanted: int, now_s: float) -> int:
        """Return how many messages the next request may carry."""
        if self.silent:
            return 1
        if self.bucket is None:
            return wanted
        return max(1, self.bucket.room(wanted, now_s))

    def due_s(self, now_s: float) -> float | None:
        """Return when there is room though nothing ends; None: an end is waited for.

        The time may be early.
        """
        if now_s < self.pause_until_s:
            return self.pause_until_s
        if self.silent:
            return None if self._trying else max(now_s, self._try_s)
        if self.bucket is not None and not self.bucket.room(1, now_s):
            return self.bucket.due_s(1, now_s)
        return self.limiter.due_s(now_s)

    def begin(self, messages: int, now_s: float) -> None:
        """Count a request that leaves."""
        self.limiter.began()
        self._trying += self.silent
        if self.bucket is not None:
            self.bucket.take(messages, now_s)

    def ended(self, began_s: float, *, well: bool | None, now_s: float) -> bool:
        """Count a request that ended; return whether the origin was silent until now."""
        if self.silent and began_s < self._silent_s:
            return False  # an overloaded origin still finishes some
        if self.silent:
            self._trying = max(0, self._trying - 1)
        if well is False:
            self._failures += 1
            self._try_s = now_s + TRY_EVERY_S
            if self._failures >= MANY_FAILURES:
                self._fall_silent(now_s)
        elif well:
            self._failures = 0
            if self.silent:
                self.silent = False
                self.limiter.restart(now_s)
                return True
        return False

    def breaker_opened(self, now_s: float, *, was_closed: bool) -> None:
        """Note that the breaker of one of its subscriptions opened."""
        if self._failures >= FAILURES:
            self._fall_silent(now_s)
        elif was_closed:
            self.limiter.restart(now_s)  # it was cut for a path that fails by itself

    def _fall_silent(self, now_s: float) -> None:
        if not self.silent:
            self.silent = True
            self._silent_s = self._try_s = now_s
            self._trying = 0

    def is_alone(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint is the only one here."""
        return all(one is endpoint for one in self.endpoints.values())

    def pause(self, for_s: float, now_s: float) -> None:
        """Pause, as a `Retry-After` of the origin asks."""
        metrics.decisions.labels("retry_after").inc()
        self.pause_until_s = max(self.pause_until_s, now_s + for_s)

    def reset(self, now_s: float) -> None:
        """Somebody says that it works again."""
        self.pause_until_s = now_s
        self.silent = False
        self._failures = 0
        self.limiter.restart(now_s)

    def throttle(self, asked: Throttle, now_s: float) -> None:
        metrics.decisions.labels("throttle").inc()
        self._throttled_until_s = now_s + asked.for_s
        self.concurrency = asked.concurrency
        rate = asked.messages_per_second
        if rate is None:
            self.bucket = None
        elif self.bucket is None or self.bucket.per_second != rate:
            self.bucket = TokenBucket(rate, now_s)
            self.bucket.take(int(self.bucket.burst * (1 - RATE_BURST_S)), now_s)

    def tell(self, shown: PushStatus, now_s: float) -> None:
        """Write the state of the origin into the status that people see."""
        self._forget_throttle(now_s)
        shown.limit = round(self.limiter.limit, 4)
        shown.in_flight = self.limiter.in_flight
        shown.paused_seconds = round(max(0.0, self.pause_until_s - now_s), 3)
        shown.max_rate = None if self.bucket is None else self.bucket.per_second
        shown.max_concurrency = self.concurrency

    def throttles(self, now_s: float) -> list[flow.Throttle]:
        """Return the restraints that the origin asked for."""
        self._forget_throttle(now_s)
        found: list[flow.Throttle] = []
        asked = "the endpoint asked for it"
        until = _from_now(self._throttled_until_s - now_s)
        if self.bucket is not None:
            rate = self.bucket.per_second
            found.append(flow.Throttle("endpoint_messages_per_second", asked, rate, until))
        if self.concurrency is not None:
            found.append(flow.Throttle("endpoint_requests", asked, self.concurrency, until))
        if now_s < self.pause_until_s:
            pause = _from_now(self.pause_until_s - now_s)
            found.append(flow.Throttle("endpoint_pause", asked, 0.0, pause))
        return found

    def _forget_throttle(self, now_s: float) -> None:
        """Drop the rate and the concurrency that the origin asked for once they expire."""
        if now_s >= self._throttled_until_s:
            self.bucket = self.concurrency = None
