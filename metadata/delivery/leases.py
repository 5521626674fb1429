"""Keeps the leases of forwarders: one row per incarnation, 4 s long, renewed each second.

A lease that has run out stays over: its partitions may have a new owner, so the holder registers
anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from metadata.database import Connection, Database
from metadata.delivery.assignments import RELEASE_ALL
from metadata.errors import LeaseLost
from metadata.lease import LEASE_S, RENEW_DEADLINE_S, Holding, valid_until_s
from metadata.types import Forwarder

LEAVING = "-leaving"
"""Behind the role of one that has released all it owned and is to get nothing any more."""

_LENGTH = timedelta(seconds=LEASE_S)
_FORGET_OLD = """
DELETE FROM forwarders WHERE incarnation IN (
    SELECT incarnation FROM forwarders
    WHERE lease_until < clock_timestamp() - interval '1 hour'
    ORDER BY incarnation
    FOR UPDATE SKIP LOCKED
)
"""
_INSERT = """
INSERT INTO forwarders (incarnation, role, address, weight, lease_until)
VALUES ($1, $2, $3, $5, clock_timestamp() + $4)
ON CONFLICT (incarnation) DO UPDATE SET lease_until = clock_timestamp() + $4
WHERE forwarders.lease_until > clock_timestamp()
RETURNING incarnation
"""
_FORWARDER = """
    incarnation, role, address, weight,
    extract(epoch FROM lease_until - clock_timestamp())::float8 AS remaining_s,
    extract(epoch FROM clock_timestamp() - started_at)::float8 AS age_s
"""
_RENEW = (
    """
WITH renewed AS (
    UPDATE forwarders
    SET lease_until = clock_timestamp() + $2, load = coalesce($3::jsonb, load)
    WHERE incarnation = $1 AND lease_until > clock_timestamp()
    RETURNING incarnation, role, address, weight, lease_until, started_at
), live AS (
    SELECT * FROM renewed
    UNION ALL
    SELECT incarnation, role, address, weight, lease_until, started_at
    FROM forwarders
    WHERE role = ANY($4::text[]) AND lease_until > clock_timestamp() AND incarnation <> $1
      AND EXISTS (SELECT 1 FROM renewed)
)
SELECT"""
    + _FORWARDER
    + "FROM live ORDER BY started_at, incarnation"
)
_LEAVE = """
UPDATE forwarders SET role = role || $2
WHERE incarnation = $1 AND right(role, length($2)) <> $2
"""
_LIVE = (
    "SELECT"
    + _FORWARDER
    + """
FROM forwarders
WHERE role = $1 AND lease_until > clock_timestamp()
ORDER BY started_at, incarnation
"""
)


@dataclass(frozen=True, slots=True)
class Lease(Holding):
    """The lease of a forwarder."""

    incarnation: bytes
    valid_until_s: float
    live: tuple[Forwarder, ...] = field(default=(), compare=False)
    """All processes of that role with good leases at a renewal, the holder among them."""


class LeaseRepository:
    """Rows of `forwarders`. A lease that has run out is never renewed: register anew."""

    def __init__(
        self, database: Database, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic_s = monotonic_s

    async def register(
        self, incarnation: bytes, *, role: str, address: str = "", weight: float = 1.0
    ) -> Lease:
        """Insert a new lease.

        Can be repeated after OutcomeUnknown; LeaseLost if that incarnation is over by then.
        """

        async def work(connection: Connection) -> None:
            await connection.execute(_FORGET_OLD)
            if not await connection.fetchval(_INSERT, incarnation, role, address, _LENGTH, weight):
                raise LeaseLost(f"the lease of {incarnation.hex()} is over")

        sent_s = self._monotonic_s()
        await self._database.transaction(work)
        return self._lease(incarnation, sent_s, [])

    async def renew(
        self, incarnation: bytes, *, role: str = "subscribe", load: bytes | None = None
    ) -> Lease:
        """Renew the lease, and return it with the other live processes of that role. `load` is JSON
        for others to read.

        LeaseLost when the row is gone or was over when the renewal arrived.
        """
        roles = [role, role + LEAVING]
        report = None if load is None else load.decode()

        async def work(connection: Connection) -> list[Forwarder]:
            rows = await connection.fetch(_RENEW, incarnation, _LENGTH, report, roles)
            return [Forwarder(**row) for row in rows]

        sent_s = self._monotonic_s()
        live = await self._database.statement(
            work, writes=True, deadline_s=RENEW_DEADLINE_S, always=True
        )
        if not live:
            raise LeaseLost(f"the lease of {incarnation.hex()} is over")
        return self._lease(incarnation, sent_s, live)

    async def leave(self, incarnation: bytes) -> None:
        """Releases its assignments and gives it no more; the lease goes on. Idempotent."""

        async def work(connection: Connection) -> None:
            await connection.fetch(RELEASE_ALL, incarnation)
            await connection.execute(_LEAVE, incarnation, LEAVING)

        await self._database.transaction(work)

    async def release(self, incarnation: bytes) -> None:
        """Releases its assignments and drops the row, together. Idempotent."""

        async def work(connection: Connection) -> None:
            await connection.fetch(RELEASE_ALL, incarnation)
            await connection.execute("DELETE FROM forwarders WHERE incarnation = $1", incarnation)

        await self._database.transaction(work)

    async def live(self, role: str) -> list[Forwarder]:
        """Return the processes whose lease is not over."""

        async def work(connection: Connection) -> list[Forwarder]:
            return [Forwarder(**row) for row in await connection.fetch(_LIVE, role)]

        return await self._database.statement(work, writes=False)

    @staticmethod
    def _lease(incarnation: bytes, sent_s: float, live: list[Forwarder]) -> Lease:
        return Lease(incarnation, valid_until_s(sent_s), tuple(live))
