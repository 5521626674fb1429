"""The retry policy: when a failed message may be delivered again, and when it may not. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from metadata.types import Subscription

MAX_EXCEPTIONS = 100_000


class Now(NamedTuple):
    """One moment by two clocks."""

    ms: int
    """Monotonic: what deadlines are counted in."""
    us: int
    """Wall clock, since 1970 UTC: what is written down."""

    def wall_us(self, ms: int) -> int:
        """Return the time by the wall clock at `ms` of the monotonic clock."""
        return self.us + (ms - self.ms) * 1000

    def clock_ms(self, us: int) -> int:
        """Return the first ms of the monotonic clock at or after `us` of the wall clock."""
        return self.ms + -((self.us - us) // 1000)


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a subscription that a ledger needs."""

    min_backoff_ms: int = 1_000
    max_backoff_ms: int = 600_000
    max_attempts: int | None = None
    park: bool = False
    """An exhausted message is parked instead of dead-lettered."""
    exactly_once: bool = False
    ordered: bool = False
    history: bool = False
    """Whether the time at which each message was settled is kept."""
    max_exceptions: int = MAX_EXCEPTIONS
    """From this many open deliveries of one cursor on, nothing new is delivered."""

    @classmethod
    def of(
        cls,
        subscription: Subscription,
        *,
        history: bool = False,
        max_exceptions: int = MAX_EXCEPTIONS,
    ) -> Policy:
        retry = subscription.retry
        return cls(
            min_backoff_ms=int(retry.min_backoff_s * 1000),
            max_backoff_ms=int(retry.max_backoff_s * 1000),
            max_attempts=retry.max_attempts,
            park=subscription.on_exhausted == "park",
            exactly_once=subscription.delivery == "exactly_once",
            ordered=subscription.ordered,
            history=history,
            max_exceptions=max_exceptions,
        )

    def exhausted(self, attempts: int) -> bool:
        return self.max_attempts is not None and attempts >= self.max_attempts

    def backoff_ms(self, attempts: int, random: Callable[[], float]) -> int:
        """Return the back-off after `attempts` failed attempts: between 0 and
        min·2^(attempts − 1), at most max.
        """
        doubled = self.min_backoff_ms << min(attempts - 1, 40)
        return int(min(self.max_backoff_ms, doubled) * random())
