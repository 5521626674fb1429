"""Keeps the endpoints that this process pushes to, and the pushers that wait at each origin.

Pushers get room at an origin in turn: one that gets it goes to the end of the wait list if it wants
more, so one subscription's backlog does not starve another's single message. A pusher that waits
for its own breaker's pause to end is not in the list until then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from edge.breaker import State
from edge.quota import NO_LIMITS, PUSH_CONCURRENCY, Quotas
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.endpoint import Endpoint, Wake
from subscribe_forwarder.push.origin import EndpointKey, Origin, endpoint_key
from subscribe_forwarder.push.verdict import Verdict

_UNLIMITED = 2**31


class Endpoints:
    """Keeps the endpoints of one process, on one event loop."""

    def __init__(
        self,
        levels: Quotas = NO_LIMITS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make the endpoints; `levels`: how many requests of a tenant may be out of this
        process.
        """
        self._levels = levels
        self.clock = clock or asyncio.get_running_loop().time
        self._known: dict[EndpointKey, Origin] = {}
        self._users: Counter[Endpoint] = Counter()
        self._out: Counter[bytes] = Counter()
        self._full: dict[bytes, dict[Origin, None]] = {}
        """The origins where a pusher waits for its tenant, by tenant at its limit."""
        self._timers: dict[Origin, asyncio.TimerHandle] = {}
        self._paused: dict[Wake, tuple[Endpoint, asyncio.TimerHandle]] = {}
        """The pushers that wait for their own breaker's pause to end."""

    def use(self, tenant_id: bytes, url: str, subscription_uid: bytes) -> Endpoint:
        """Return the endpoint; `leave` is to follow."""
        key, now_s = endpoint_key(tenant_id, url), self.clock()
        origin = self._known.get(key)
        if origin is None:
            origin = self._known[key] = Origin(key, now_s)
        endpoint = origin.endpoints.get(subscription_uid)
        if endpoint is None:
            endpoint = Endpoint(key, now_s, origin=origin)
            origin.endpoints[subscription_uid] = endpoint
        self._users[endpoint] += 1
        return endpoint

    def leave(self, endpoint: Endpoint, wake: Wake) -> None:
        """Nobody who is gone is woken in place of others."""
        origin = endpoint.origin
        origin.waiting.pop(wake, None)
        if (paused := self._paused.pop(wake, None)) is not None:
            paused[1].cancel()
        self._users[endpoint] -= 1
        if self._users[endpoint] > 0:
            return
        del self._users[endpoint]
        for uid in [uid for uid, one in origin.endpoints.items() if one is endpoint]:
            del origin.endpoints[uid]
        if not origin.endpoints:
            del self._known[origin.key]
            if (timer := self._timers.pop(origin, None)) is not None:
                timer.cancel()

    def room(self, endpoint: Endpoint) -> int:
        """Return how many requests to an endpoint may begin now."""
        room = endpoint.room(self.clock())
        return min(room, self._tenant_room(endpoint.key.tenant_id, room)) if room else 0

    def wait(self, endpoint: Endpoint, wake: Wake) -> None:
        """Wake the caller once, when there may be room; `wake` tells whether it was of use."""
        origin, now_s = endpoint.origin, self.clock()
        if wake in origin.waiting or wake in self._paused:
            return
        self._enqueue(endpoint, wake, now_s)
        if wake in self._paused:
            return
        if endpoint.room(now_s):  # the tenant has none
            self._full.setdefault(endpoint.key.tenant_id, {}).setdefault(origin)
        else:
            self._arm(origin)

    def begin(self, endpoint: Endpoint, messages: int) -> float:
        """Count a request that leaves; return its time, for `ended`."""
        now_s = self.clock()
        endpoint.begin(messages, now_s)
        self._out[endpoint.key.tenant_id] += 1
        metrics.in_flight.inc()
        return now_s

    def ended(self, endpoint: Endpoint, began_s: float, verdict: Verdict) -> None:
        """Count a request that ended, and let waiting pushers go on."""
        tenant_id, origin = endpoint.key.tenant_id, endpoint.origin
        now_s = self.clock()
        if endpoint.ended(began_s, verdict, now_s):
            for one in origin.endpoints.values():
                one.breaker.hasten(now_s)
            for wake, (one, timer) in list(self._paused.items()):
                if one.origin is origin:
                    timer.cancel()
                    del self._paused[wake]
                    origin.waiting[wake] = one
        self._out[tenant_id] -= 1
        if self._out[tenant_id] <= 0:
            del self._out[tenant_id]
        metrics.in_flight.dec()
        self.hand_on(origin)
        for other in list(self._full.pop(tenant_id, ())):
            self.hand_on(other)

    def keep(self, endpoint: Endpoint, wake: Wake) -> None:
        """Take a pusher that ends a request off the wait list if no other pusher waits.

        It goes on by itself.
        """
        if len(endpoint.origin.waiting) == 1:
            endpoint.origin.waiting.pop(wake, None)

    def hand_on(self, origin: Origin) -> None:
        """Wake pushers that wait for room at an origin, until the room is used."""
        now_s = self.clock()
        room = origin.room(now_s)
        room = min(room, self._tenant_room(origin.key.tenant_id, room)) if room else 0
        for _ in range(len(origin.waiting)):
            if room <= 0 or not origin.waiting:
                break
            wake = next(iter(origin.waiting))
            endpoint = origin.waiting.pop(wake)
            if endpoint.breaker.room(now_s) == 0:
                self._enqueue(endpoint, wake, now_s)
            else:
                room -= wake()
        if origin.waiting:
            self._arm(origin)

    def tell(self) -> None:
        """Set the gauge of endpoints, once in a while."""
        states = Counter(endpoint.breaker.state for endpoint in self._users)
        for state in State:
            metrics.endpoints.labels(state.name.lower()).set(states[state])

    def close(self) -> None:
        for timer in [*self._timers.values(), *(timer for _, timer in self._paused.values())]:
            timer.cancel()
        self._timers.clear()
        self._paused.clear()

    def _tenant_room(self, tenant_id: bytes, wanted: int) -> int:
        """Return how many requests of a tenant may begin now."""
        out = self._out[tenant_id]
        share = self._levels.share(tenant_id, PUSH_CONCURRENCY, out, wanted)
        if share is None:
            return _UNLIMITED
        return max(1, int(share)) - out

    def _enqueue(self, endpoint: Endpoint, wake: Wake, now_s: float) -> None:
        """Put a pusher at the end of the wait list, at once or when its breaker's pause is over."""
        own_s = endpoint.breaker.due_s(now_s)
        if own_s is None or own_s <= now_s:
            endpoint.origin.waiting[wake] = endpoint
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.001, own_s - now_s), self._paused_until_now, wake)
        self._paused[wake] = endpoint, timer

    def _paused_until_now(self, wake: Wake) -> None:
        endpoint, _ = self._paused.pop(wake)
        endpoint.origin.waiting[wake] = endpoint
        self.hand_on(endpoint.origin)

    def _arm(self, origin: Origin) -> None:
        """Set a timer for the time at which there may be room, though nothing ends."""
        now_s = self.clock()
        due_s = origin.due_s(now_s)
        known = self._timers.pop(origin, None)
        if known is not None:
            known.cancel()
        if due_s is not None:
            delay_s = max(0.001, due_s - now_s)
            loop = asyncio.get_running_loop()
            self._timers[origin] = loop.call_later(delay_s, self._due, origin)

    def _due(self, origin: Origin) -> None:
        with suppress(KeyError):
            del self._timers[origin]
        self.hand_on(origin)
