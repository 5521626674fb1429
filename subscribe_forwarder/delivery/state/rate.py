"""Limits the rates of deliveries: a token bucket, and the buckets of one subscription.

A bucket holds at most one second's worth of tokens, and at least one; each message takes one. So in
any span of t seconds at most `rate * t + burst` messages go out. Pure: times are seconds of the
caller's monotonic clock.
"""

from __future__ import annotations

from typing import Protocol

BURST_S = 1.0
GRAIN_S = 0.02
MAX_CONSUMERS = 10_000
NAMELESS = ""
"""All consumers that give no name: they share one bucket."""


class TokenBucket:
    """Tokens come evenly, `per_second` of them; full at first."""

    __slots__ = ("_at_s", "_tokens", "burst", "grain", "per_second")

    def __init__(self, per_second: float, now_s: float) -> None:
        self._at_s = now_s
        self._set_rate(per_second)
        self._tokens = self.burst

    def set_rate(self, per_second: float, now_s: float) -> None:
        """Set the rate from now on; the tokens in the bucket stay, up to its new size."""
        self._fill(now_s)
        self._set_rate(per_second)
        self._tokens = min(self._tokens, self.burst)

    def _set_rate(self, per_second: float) -> None:
        self.per_second = per_second
        self.burst = max(1.0, per_second * BURST_S)
        self.grain = max(1, int(per_second * GRAIN_S))
        """The number of messages that go together, or none: a high rate does not become
        single messages.
        """

    def room(self, wanted: int, now_s: float) -> int:
        """Return how many of `wanted` messages may go now."""
        self._fill(now_s)
        there = int(self._tokens)
        return min(wanted, there) if there >= min(wanted, self.grain) else 0

    def take(self, count: int, now_s: float) -> None:
        """Take tokens: at most the number that `room` just returned."""
        self._fill(now_s)
        self._tokens -= count

    def give_back(self, count: int, now_s: float) -> None:
        """Return tokens that were taken for messages that did not go."""
        self._fill(now_s)
        self._tokens = min(self.burst, self._tokens + count)

    def full(self, now_s: float) -> bool:
        """Return whether the bucket is as a new one would be."""
        self._fill(now_s)
        return self._tokens >= self.burst

    def due_s(self, wanted: int, now_s: float) -> float:
        """Return the time at which `room` will not be 0."""
        self._fill(now_s)
        missing = min(wanted, self.grain) - self._tokens
        return now_s + max(0.0, missing) / self.per_second

    def _fill(self, now_s: float) -> None:
        if now_s > self._at_s:
            grown = self._tokens + (now_s - self._at_s) * self.per_second
            self._tokens = min(self.burst, grown)
            self._at_s = now_s


class SharedLimit(Protocol):
    """A limit for all subscriptions of a process together."""

    @property
    def active(self) -> bool: ...
    def room(self, wanted: int, now_s: float) -> int: ...
    def took(self, count: int, now_s: float) -> None: ...
    def give_back(self, count: int, now_s: float) -> None: ...
    def due_s(self, wanted: int, now_s: float) -> float | None: ...


class RateLimits:
    """Limits the deliveries of one subscription: all consumers together, and each of them.

    A limit for all subscriptions may be beside them.
    """

    __slots__ = ("_all", "_beside", "_consumers", "_each")

    def __init__(self, beside: SharedLimit | None = None) -> None:
        self._beside = beside
        self._all: TokenBucket | None = None
        self._each: float | None = None
        self._consumers: dict[str, TokenBucket] = {}

    @property
    def any(self) -> bool:
        """Whether any limit is set."""
        beside = self._beside
        return (
            self._all is not None
            or self._each is not None
            or (beside is not None and beside.active)
        )

    def follow(self, per_second: float | None, each_per_second: float | None, now_s: float) -> None:
        """Follow changed limits; used tokens stay used."""
        if per_second is None:
            self._all = None
        elif self._all is None:
            self._all = TokenBucket(per_second, now_s)
        elif self._all.per_second != per_second:
            self._all.set_rate(per_second, now_s)
        if each_per_second is None:
            self._consumers.clear()
        elif each_per_second != self._each:
            for bucket in self._consumers.values():
                bucket.set_rate(each_per_second, now_s)
        self._each = each_per_second

    def room(self, wanted: int, now_s: float) -> int:
        """Return how many of `wanted` messages may go to any consumer now."""
        room = wanted if self._all is None else self._all.room(wanted, now_s)
        return self._beside.room(room, now_s) if room and self._beside is not None else room

    def room_of(self, consumer: str, wanted: int, now_s: float) -> int:
        """Return how many of `wanted` messages this consumer may have by its own limit."""
        bucket = self._bucket(consumer, now_s)
        return wanted if bucket is None else bucket.room(wanted, now_s)

    def take(self, consumer: str, count: int, now_s: float) -> None:
        """Count messages to a consumer: at most the number that both limits just allowed."""
        if self._beside is not None:
            self._beside.took(count, now_s)
        if self._all is not None:
            self._all.take(count, now_s)
        bucket = self._bucket(consumer, now_s)
        if bucket is not None:
            bucket.take(count, now_s)

    def give_back(self, consumer: str, count: int, now_s: float) -> None:
        """Return messages that `take` counted and that did not go."""
        if self._beside is not None:
            self._beside.give_back(count, now_s)
        if self._all is not None:
            self._all.give_back(count, now_s)
        bucket = self._bucket(consumer, now_s)
        if bucket is not None:
            bucket.give_back(count, now_s)

    def due_s(self, wanted: int, now_s: float) -> float | None:
        """Return the time at which `room` will not be 0; None without a limit."""
        due_s = None if self._all is None else self._all.due_s(wanted, now_s)
        also_s = None if self._beside is None else self._beside.due_s(wanted, now_s)
        if due_s is None or also_s is None:
            return also_s if due_s is None else due_s
        return max(due_s, also_s)

    def due_of_s(self, consumer: str, wanted: int, now_s: float) -> float | None:
        """Return the time at which `room_of` will not be 0."""
        bucket = self._bucket(consumer, now_s)
        return None if bucket is None else bucket.due_s(wanted, now_s)

    def _bucket(self, consumer: str, now_s: float) -> TokenBucket | None:
        """Return the bucket of a consumer; None without a limit for each consumer."""
        if self._each is None:
            return None
        bucket = self._consumers.get(consumer)
        if bucket is not None:
            return bucket
        if len(self._consumers) >= MAX_CONSUMERS:
            self._forget_full(now_s)
        if len(self._consumers) >= MAX_CONSUMERS:
            consumer = NAMELESS  # too many share one bucket; forgetting one would give it a burst
        return self._consumers.setdefault(consumer, TokenBucket(self._each, now_s))

    def _forget_full(self, now_s: float) -> None:
        """Forget full buckets: a full bucket is like a new one."""
        for consumer in [name for name, one in self._consumers.items() if one.full(now_s)]:
            del self._consumers[consumer]
