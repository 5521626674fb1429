"""Holds the circuit breakers of a process: one before Postgres, one before each group of the store.

They refuse calls that would only wait, with 503 and Retry-After. Calls that never wait for seconds
are not their business: a refused connection costs nothing, and is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from prometheus_client import Counter, Gauge

from edge.breaker import Breaker, Ended, Limits, State
from metadata.errors import MetadataUnavailable

METADATA = Limits(failures=3, silent_s=1.5, open_first_s=0.25, open_most_s=1.0, probe_every_s=4.0)
"""Leases and the feed ask every second or three whatever it says: no request need try."""
METADATA_SLOW_S = 0.5
GROUP = Limits(failures=3, silent_s=5.0, open_first_s=0.25, open_most_s=0.25, probe_every_s=0.25)
"""An election takes half a second: calls wait through many before it opens."""
GROUP_SLOW_S = 3.0

_STATE = Gauge(
    "packetboat_breaker_state", "0 closed, 1 half open: one call may try, 2 open", ["to"]
)
_REJECTED = Counter("packetboat_breaker_rejected_total", "Calls that were not made", ["to"])
_log = structlog.get_logger("packetboat.breaker")


def breaker(to: str, limits: Limits) -> Breaker:
    """Return a breaker that tells metrics and the log."""
    gauge = _STATE.labels(to)
    gauge.set(State.CLOSED.value)

    def changed(state: State, why: str) -> None:
        gauge.set(state.value)
        if state is not State.HALF_OPEN:
            _log.warning("breaker", to=to, state=state.name.lower(), why=why)
        else:
            _log.debug("breaker", to=to, state="half_open", why=why)

    return Breaker(limits, on_change=changed)


class BreakerCalls:
    """The calls that one breaker guards; decides which failures took long enough to count.

    Those of a group are a `store_nodes.client.guard.GroupGuard`.
    """

    def __init__(self, to: str, limits: Limits, slow_s: float, now_s: Callable[[], float]) -> None:
        self.breaker = breaker(to, limits)
        self.now_s = now_s
        self._slow_s = slow_s
        self._rejected = _REJECTED.labels(to)
        self._began_s: dict[int, float] = {}

    def admits(self) -> bool:
        """Return whether a call may be made; count it as rejected otherwise."""
        admitted = self.breaker.admit(self.now_s())
        if not admitted:
            self._rejected.inc()
        return admitted

    def began(self) -> int:
        now_s = self.now_s()
        call = self.breaker.began(now_s)
        self._began_s[call] = now_s
        return call

    def left(self, call: int, *, answered: bool | None) -> None:
        """Note the end of a call; `answered` is None where nobody waited for it."""
        now_s = self.now_s()
        slow = now_s - self._began_s.pop(call) >= self._slow_s
        if answered:
            how = Ended.SUCCESS
        elif answered is None or not slow:
            how = Ended.NEITHER
        else:
            how = Ended.FAILURE
        self.breaker.ended(call, how, now_s)

    def has_leader(self) -> None:
        """Close the breaker: the group has a leader that is connected."""
        self.breaker.reset(self.now_s(), "it has a leader")


class MetadataBreaker:
    """Guards Postgres by a breaker: a `metadata.guard.DatabaseGuard`."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._calls = BreakerCalls("metadata", METADATA, METADATA_SLOW_S, now_s)

    @property
    def state(self) -> State:
        return self._calls.breaker.state

    def enter(self, *, always: bool) -> int:
        if not always and not self._calls.admits():
            wait_s = self._calls.breaker.retry_after_s(self._calls.now_s())
            raise MetadataUnavailable("Postgres has not answered for a while", retry_after_s=wait_s)
        return self._calls.began()

    def left(self, operation: int, *, answered: bool) -> None:
        self._calls.left(operation, answered=answered)

    def gave_up(self, operation: int) -> None:
        self._calls.left(operation, answered=None)


class GroupBreakers:
    """Has a breaker for each group of the store."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._groups: dict[int, BreakerCalls] = {}

    def of(self, group: int) -> BreakerCalls:
        """Return the calls to a group; make its breaker at the first use."""
        calls = self._groups.get(group)
        if calls is None:
            calls = BreakerCalls(f"group-{group}", GROUP, GROUP_SLOW_S, self._now_s)
            self._groups[group] = calls
        return calls
