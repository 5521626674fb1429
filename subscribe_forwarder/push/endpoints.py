"""The endpoints that this process pushes to, and who waits for room at each.

Room at an endpoint is handed on in turn: who gets it goes to the end of the line if it wants more,
so one subscription's backlog does not starve another's single message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from edge.breaker import State
from edge.quota import NO_LIMITS, PUSH_CONCURRENCY, Levels
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.endpoint import Endpoint, Wake, endpoint_key
from subscribe_forwarder.push.verdict import Verdict

_UNLIMITED = 2**31


class Endpoints:
    """One per process; use it on one event loop."""

    def __init__(
        self,
        levels: Levels = NO_LIMITS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`levels`: how many requests of a tenant may be out of this process."""
        self._levels = levels
        self.clock = clock or asyncio.get_running_loop().time
        self._known: dict[tuple[bytes, str], Endpoint] = {}
        self._users: Counter[tuple[bytes, str]] = Counter()
        self._out: Counter[bytes] = Counter()
        self._full: dict[bytes, dict[Endpoint, None]] = {}
        """By tenant at its limit, the endpoints where somebody waits for that."""
        self._timers: dict[Endpoint, asyncio.TimerHandle] = {}

    def use(self, tenant_id: bytes, url: str) -> Endpoint:
        """To be followed by `leave`."""
        key = endpoint_key(tenant_id, url)
        self._users[key] += 1
        endpoint = self._known.get(key)
        if endpoint is None:
            endpoint = self._known[key] = Endpoint(key, self.clock())
        return endpoint

    def leave(self, endpoint: Endpoint, wake: Wake) -> None:
        """Nobody who is gone is woken in place of others."""
        endpoint.waiting.pop(wake, None)
        self._users[endpoint.key] -= 1
        if self._users[endpoint.key] <= 0:
            del self._users[endpoint.key], self._known[endpoint.key]
            if (timer := self._timers.pop(endpoint, None)) is not None:
                timer.cancel()

    def room(self, endpoint: Endpoint) -> int:
        """How many requests may begin now."""
        room = endpoint.room(self.clock())
        return min(room, self._tenant_room(endpoint.key.tenant_id, room)) if room else 0

    def wait(self, endpoint: Endpoint, wake: Wake) -> None:
        """To be woken once, when there may be room; `wake` tells whether it was of use."""
        if wake in endpoint.waiting:
            return
        endpoint.waiting[wake] = None
        if endpoint.room(self.clock()):  # the tenant has none
            self._full.setdefault(endpoint.key.tenant_id, {}).setdefault(endpoint)
        else:
            self._arm(endpoint)

    def begin(self, endpoint: Endpoint, messages: int) -> float:
        """A request leaves; the time to tell `ended`."""
        now_s = self.clock()
        endpoint.begin(messages, now_s)
        self._out[endpoint.key.tenant_id] += 1
        metrics.in_flight.inc()
        return now_s

    def ended(self, endpoint: Endpoint, began_s: float, verdict: Verdict) -> None:
        tenant_id = endpoint.key.tenant_id
        endpoint.ended(began_s, verdict, self.clock())
        self._out[tenant_id] -= 1
        if self._out[tenant_id] <= 0:
            del self._out[tenant_id]
        metrics.in_flight.dec()
        self.hand_on(endpoint)
        for other in list(self._full.pop(tenant_id, ())):
            self.hand_on(other)

    def keep(self, endpoint: Endpoint, wake: Wake) -> None:
        """Who is about to end a request goes on itself, unless others wait."""
        if len(endpoint.waiting) == 1:
            endpoint.waiting.pop(wake, None)

    def hand_on(self, endpoint: Endpoint) -> None:
        """Wakes who waits for room, until as many as there is room for have made use of it."""
        room = self.room(endpoint)
        for _ in range(len(endpoint.waiting)):
            if room <= 0 or not endpoint.waiting:
                break
            wake = next(iter(endpoint.waiting))
            del endpoint.waiting[wake]
            room -= wake()
        if endpoint.waiting:
            self._arm(endpoint)

    def tell(self) -> None:
        """The gauge of endpoints, once in a while."""
        states = Counter(endpoint.breaker.state for endpoint in self._known.values())
        for state in State:
            metrics.endpoints.labels(state.name.lower()).set(states[state])

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _tenant_room(self, tenant_id: bytes, wanted: int) -> int:
        out = self._out[tenant_id]
        share = self._levels.share(tenant_id, PUSH_CONCURRENCY, out, wanted)
        if share is None:
            return _UNLIMITED
        return max(1, int(share)) - out

    def _arm(self, endpoint: Endpoint) -> None:
        """There may be room at a time, though nothing ends."""
        now_s = self.clock()
        due_s = endpoint.due_s(now_s)
        known = self._timers.pop(endpoint, None)
        if known is not None:
            known.cancel()
        if due_s is not None:
            delay_s = max(0.001, due_s - now_s)
            loop = asyncio.get_running_loop()
            self._timers[endpoint] = loop.call_later(delay_s, self._due, endpoint)

    def _due(self, endpoint: Endpoint) -> None:
        with suppress(KeyError):
            del self._timers[endpoint]
        self.hand_on(endpoint)
