"""Changes of the control plane: tenants take turns, and each has a rate.

Every change takes its version from one row, which it holds until it has committed
(metadata/changes.py). So of one tenant few are made at once: whoever else makes one waits for
those, and not for all that the tenant has sent. The others of the tenant wait here, without a
connection to Postgres. A tenant that makes more than its rate waits as well; a request is refused
only where too many of its tenant wait already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from edge.asgi import Handler, Receive, Route, Scope, Send, tenant_of
from edge.problem import Problem
from edge.shares import Shares, TooManyWaiting, Turns
from quotas.bucket import Bucket

AT_ONCE = 8
OF_TENANT = 0.25
"""Of these, one tenant's."""
MAX_WAITING = 1_000
"""Of one tenant half of them."""
PER_SECOND = 50.0
"""Of one tenant, in one process."""
SLOW = (":test", ":verify", ":replay", ":run")
"""Actions that wait for something outside, and change no row that others wait for."""
_MOST_KNOWN = 10_000
_sleep = asyncio.sleep


class WriteTurns:
    """One per process."""

    def __init__(
        self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._clock = clock
        self._turns = Turns(Shares(AT_ONCE, OF_TENANT), Shares(MAX_WAITING, name="control_writes"))
        self._rates: dict[bytes, Bucket] = {}

    def around(self, route: Route) -> Route:
        """The route as it is served; it is one that changes something."""
        if route.path.endswith(SLOW):
            return route
        handler: Handler = route.handler

        async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
            tenant_id = tenant_of(scope)
            try:
                async with self._turns.turn(tenant_id):
                    await self._paced(tenant_id)
                    await handler(scope, receive, send)
            except TooManyWaiting as error:
                raise _too_many(int(self._turns.waiting.of(tenant_id))) from error

        return route._replace(handler=in_turn)

    async def _paced(self, tenant_id: bytes) -> None:
        bucket = self._rates.get(tenant_id) or self._met(tenant_id)
        while bucket.fill(self._clock()) <= 0:
            await _sleep(max(0.001, bucket.wait_s()))
        bucket.tokens -= 1

    def _met(self, tenant_id: bytes) -> Bucket:
        if len(self._rates) >= _MOST_KNOWN:
            self._rates.clear()
        rate = self._per_second
        bucket = self._rates[tenant_id] = Bucket("control_writes", rate, rate, self._clock())
        return bucket


def _too_many(waiting: int) -> Problem:
    return Problem(
        429,
        "too-many-changes",
        "Too many changes",
        f"{waiting} changes of this tenant wait for their turn here. Nothing of this request was "
        "done; send it again after the seconds of Retry-After.",
        retry_after_s=2,
    )
