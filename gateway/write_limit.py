"""Limits the changes of the control plane: tenants take turns, and each has a rate.

Transactions of one tenant come one after the other, and all take their version from one row, which
they hold until they have committed (metadata/changes.py). So few are made at once for one tenant:
another program's change waits for those, and not for all that the tenant has sent. The others of
the tenant wait here, without a connection to Postgres. A tenant that makes more than its rate waits
as well; a request is refused only where too many of its tenant wait already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from edge.asgi import Handler, Receive, Route, Scope, Send, tenant_of
from edge.shares import FairSemaphore, Shares, TooManyWaiting
from edge.write_permit import PERMIT, too_many_changes
from gateway.quotas.bucket import Bucket

AT_ONCE = 8
OF_TENANT = 0.25
"""The part of these turns that one tenant may have."""
MAX_WAITING = 1_000
"""The number of requests that may wait, half of them for one tenant."""
SLOW = (":test", ":verify", ":replay", ":run")
"""Actions that wait for something outside, and change no row that others wait for."""
_MOST_KNOWN = 10_000
_sleep = asyncio.sleep


class WriteLimit:
    """Wraps the handlers of one process."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the turns; `per_second` is the rate of one tenant."""
        self._per_second = per_second
        self._clock = clock
        self.permits = FairSemaphore(
            Shares(AT_ONCE, OF_TENANT), Shares(MAX_WAITING, name="control_writes")
        )
        self._rates: dict[bytes, Bucket] = {}

    def around(self, route: Route) -> Route:
        """Return the route as it is served; it is one that changes something."""
        if route.path.endswith(SLOW):
            return route
        handler: Handler = route.handler

        async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
            tenant_id = tenant_of(scope)
            try:
                async with self.permits.permit(tenant_id) as permit:
                    scope[PERMIT] = permit
                    await self._paced(tenant_id)
                    await handler(scope, receive, send)
            except TooManyWaiting as error:
                raise too_many_changes() from error

        return route.around(in_turn)

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
