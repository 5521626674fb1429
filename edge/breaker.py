"""Decides by a circuit breaker whether a call to a dependency that may hang is worth making.

A pure state machine; times are passed in, in seconds of any one monotonic clock.

    closed ──► open        `failures` in a row, or nothing has answered for `silent_s` while calls
                           wait: new calls would only wait as well
    open ──► half open     when the open time is over, and no call of any kind began within
                           `probe_every_s`: one may try, and so on
    half open ──► open     a try failed; the open time doubles, with jitter, up to `open_most_s`
    any ──► closed         a call succeeded, or `reset`: the dependency is known to be back

A success counts whenever its call began, since it says that the other side answers now. Calls that
are made in any state (renewals of leases, polls) are reported to it like others; they are the first
to find out.

Silence counts only if it is seen twice, `SEEN_AGAIN_S` apart: after a pause of this process, the
answers that came in the meantime have not been read yet.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass

SEEN_AGAIN_S = 0.05
JITTER = 0.2


class State(enum.Enum):
    """closed → open → half open → closed, or open again."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Ended(enum.Enum):
    """The outcome of a call; NEITHER says nothing about the other side."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which a breaker opens, and the times for which it stays open."""

    failures: int
    silent_s: float
    open_first_s: float
    open_most_s: float
    probe_every_s: float


class Breaker:
    """A circuit breaker of one dependency; `on_change` is told each new state, and why."""

    def __init__(
        self,
        limits: Limits,
        *,
        on_change: Callable[[State, str], None] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._limits = limits
        self._on_change = on_change
        self._rng = rng or random.Random()
        self._state = State.CLOSED
        self._failures = 0
        self._open_s = 0.0
        self._try_at_s = 0.0
        self._began_s = float("-inf")
        self._answered_s = float("-inf")
        self._silent_seen_s: float | None = None
        self._calls: dict[int, float] = {}
        """Time at which each call began, the oldest first."""
        self._next_call = 0

    @property
    def state(self) -> State:
        return self._state

    def retry_after_s(self, now_s: float) -> float:
        """Return the seconds until the next call may be admitted, if no other is made before."""
        if self._state is State.CLOSED:
            return 0.0
        return max(0.0, self._try_at_s - now_s, self._began_s + self._limits.probe_every_s - now_s)

    def admit(self, now_s: float) -> bool:
        """Return whether a call may be made; in the half-open state, each True is a try."""
        self._listen(now_s)
        if self._state is State.CLOSED:
            return True
        if self.retry_after_s(now_s) > 0:
            return False
        self._began_s = now_s
        if self._state is State.OPEN:
            self._turn(State.HALF_OPEN, "one call may try")
        return True

    def began(self, now_s: float) -> int:
        """Record that a call begins; pass the returned number to `ended`."""
        self._listen(now_s)
        self._next_call += 1
        self._began_s = now_s
        self._calls[self._next_call] = now_s
        return self._next_call

    def ended(self, call: int, how: Ended, now_s: float) -> None:
        """Record the outcome of a call, once for each call that began."""
        self._calls.pop(call, None)
        if how is Ended.SUCCESS:
            self._answered(now_s, "it answers")
        elif how is Ended.FAILURE:
            self._failed(now_s)

    def reset(self, now_s: float, why: str) -> None:
        """Close the breaker, since the dependency is known to be back; silence counts from now
        on.
        """
        self._answered(now_s, why)

    def _answered(self, now_s: float, why: str) -> None:
        self._failures = 0
        self._open_s = 0.0
        self._answered_s = now_s
        self._silent_seen_s = None
        if self._state is not State.CLOSED:
            self._turn(State.CLOSED, why)

    def _failed(self, now_s: float) -> None:
        self._failures += 1
        if self._state is State.HALF_OPEN:
            self._open(now_s, "a try failed")
        elif self._state is State.CLOSED and self._failures >= self._limits.failures:
            self._open(now_s, f"{self._failures} calls failed in a row")

    def _listen(self, now_s: float) -> None:
        if self._state is State.CLOSED and self._is_silent(now_s):
            # The waiting calls have been counted; they do not open the breaker again.
            self._calls.clear()
            self._open(now_s, f"nothing answered for {self._limits.silent_s:g} s")

    def _is_silent(self, now_s: float) -> bool:
        oldest_s = next(iter(self._calls.values()), None)
        if oldest_s is None or now_s - max(oldest_s, self._answered_s) < self._limits.silent_s:
            self._silent_seen_s = None
            return False
        if self._silent_seen_s is None:
            self._silent_seen_s = now_s
        return now_s - self._silent_seen_s >= SEEN_AGAIN_S

    def _open(self, now_s: float, why: str) -> None:
        limits = self._limits
        self._open_s = min(limits.open_most_s, max(limits.open_first_s, 2 * self._open_s))
        self._try_at_s = now_s + self._open_s * (1 - JITTER * self._rng.random())
        self._silent_seen_s = None
        self._turn(State.OPEN, why)

    def _turn(self, state: State, why: str) -> None:
        self._state = state
        if self._on_change is not None:
            self._on_change(state, why)
