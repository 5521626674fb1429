"""The connections of a pool, divided: tenants take turns at most of them.

A tenant that asks much waits in a line of its own, and the others find a connection meanwhile. The
platform's own operations (flushes, leases, the feed, the scheduler) wait for no turn: a quarter of
the connections is theirs alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from edge.shares import FairSemaphore, Shares
from metadata.errors import MetadataUnavailable

OF_TENANTS = 0.75
"""The part of a pool that all tenants together use at most."""
OF_TENANT = 2 / 3
"""The part of these connections that one tenant uses at most, so half of the pool."""


@dataclass(slots=True)
class Attempt:
    """The fate of one operation as far as it is known."""

    waits_for_turn: bool = False
    """Whether it waits for its tenant's turn; an operation that ends there never met Postgres."""
    sent: bool = False
    """Whether its commit may have left."""


class ConnectionShares:
    """The turns of tenants at the connections of one pool."""

    def __init__(self, connections: int, wait_s: float) -> None:
        """Create the shares of a pool.

        A pool of one connection has no part for the platform: all take turns at it. An operation
        waits `wait_s` for its turn.
        """
        of_tenants = max(1, int(OF_TENANTS * connections))
        # `Database` bounds how many operations wait: here is one line for each tenant.
        self._semaphore = FairSemaphore(Shares(of_tenants, OF_TENANT), Shares(math.inf))
        self._wait_s = wait_s

    @asynccontextmanager
    async def turn(self, tenant_id: bytes | None, attempt: Attempt) -> AsyncIterator[None]:
        """Hold one of the tenants' connections for the block; without a tenant, hold none of them.

        Raises MetadataUnavailable when the tenant's other operations leave it no turn in time.
        """
        if tenant_id is None:
            yield
            return
        attempt.waits_for_turn = True
        try:
            async with asyncio.timeout(self._wait_s):
                await self._semaphore.acquire(tenant_id)
        except TimeoutError as error:
            raise MetadataUnavailable(
                "the tenant's other operations use all connections to Postgres that it may use"
            ) from error
        attempt.waits_for_turn = False
        try:
            yield
        finally:
            self._semaphore.release(tenant_id)
