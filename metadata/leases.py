"""A forwarder's lease: one row per incarnation, 4 s long, renewed each second.

Postgres' clock decides when others may take over; the holder goes by its own monotonic clock,
counted from *before* the renewal was sent and less a margin, so it always stops first. A lease that
has run out stays over: its partitions may have a new owner, so the holder registers anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from metadata.assignments import RELEASE_ALL
from metadata.database import Connection, Database
from metadata.errors import LeaseHeld, LeaseLost
from metadata.types import Forwarder

LEASE_S = 4.0
RENEW_EVERY_S = 1.0
MARGIN_S = 0.5
RENEW_DEADLINE_S = 1.5
"""A renewal that takes longer is given up, so that the next can be tried while there is time."""

_LENGTH = timedelta(seconds=LEASE_S)
_ROLE_LOCK = "SELECT pg_advisory_xact_lock(7265746, hashtext($1))"
_OTHER = """
SELECT incarnation, extract(epoch FROM lease_until - clock_timestamp())::float8 AS remaining_s
FROM forwarders
WHERE role = $1 AND incarnation <> $2 AND lease_until > clock_timestamp()
ORDER BY lease_until DESC
LIMIT 1
FOR SHARE
"""
_FORGET_OLD = """
DELETE FROM forwarders WHERE incarnation IN (
    SELECT incarnation FROM forwarders
    WHERE lease_until < clock_timestamp() - interval '1 hour'
    ORDER BY incarnation
    FOR UPDATE SKIP LOCKED
)
"""
_INSERT = """
INSERT INTO forwarders (incarnation, role, address, lease_until)
VALUES ($1, $2, $3, clock_timestamp() + $4)
ON CONFLICT (incarnation) DO UPDATE SET lease_until = clock_timestamp() + $4
WHERE forwarders.lease_until > clock_timestamp()
RETURNING incarnation
"""
_RENEW = """
UPDATE forwarders SET lease_until = clock_timestamp() + $2
WHERE incarnation = $1 AND lease_until > clock_timestamp()
RETURNING incarnation
"""
_LIVE = """
SELECT incarnation, role, address,
    extract(epoch FROM lease_until - clock_timestamp())::float8 AS remaining_s
FROM forwarders
WHERE role = $1 AND lease_until > clock_timestamp()
ORDER BY started_at, incarnation
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """What the holder knows: good while `held(now)`; `now_s` is time.monotonic()."""

    incarnation: bytes
    valid_until_s: float

    def held(self, now_s: float) -> bool:
        return now_s < self.valid_until_s


class LeaseRepository:
    """Rows of `forwarders`. A lease that has run out is never renewed: register anew."""

    def __init__(
        self, database: Database, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic_s = monotonic_s

    async def register(
        self, incarnation: bytes, *, role: str, address: str = "", sole: bool = False
    ) -> Lease:
        """A new row; with `sole`, LeaseHeld while another live row has that role.

        Can be repeated after OutcomeUnknown; LeaseLost if that incarnation is over by then.
        """

        async def work(connection: Connection) -> None:
            await connection.execute(_FORGET_OLD)
            if sole:
                await connection.execute(_ROLE_LOCK, role)
                other = await connection.fetchrow(_OTHER, role, incarnation)
                if other is not None:
                    raise LeaseHeld(other["incarnation"], other["remaining_s"])
            if not await connection.fetchval(_INSERT, incarnation, role, address, _LENGTH):
                raise LeaseLost(f"the lease of {incarnation.hex()} is over")

        sent_s = self._monotonic_s()
        await self._database.transaction(work)
        return self._lease(incarnation, sent_s)

    async def renew(self, incarnation: bytes) -> Lease:
        """LeaseLost when the row is gone or was over when the renewal arrived."""

        async def work(connection: Connection) -> bool:
            return await connection.fetchval(_RENEW, incarnation, _LENGTH) is not None

        sent_s = self._monotonic_s()
        if not await self._database.statement(work, writes=True, deadline_s=RENEW_DEADLINE_S):
            raise LeaseLost(f"the lease of {incarnation.hex()} is over")
        return self._lease(incarnation, sent_s)

    async def release(self, incarnation: bytes) -> None:
        """Releases its assignments and drops the row, together. Idempotent."""

        async def work(connection: Connection) -> None:
            await connection.fetch(RELEASE_ALL, incarnation)
            await connection.execute("DELETE FROM forwarders WHERE incarnation = $1", incarnation)

        await self._database.transaction(work)

    async def live(self, role: str) -> list[Forwarder]:
        """Rows whose lease is not over."""

        async def work(connection: Connection) -> list[Forwarder]:
            return [Forwarder(**row) for row in await connection.fetch(_LIVE, role)]

        return await self._database.statement(work, writes=False)

    @staticmethod
    def _lease(incarnation: bytes, sent_s: float) -> Lease:
        return Lease(incarnation, sent_s + LEASE_S - MARGIN_S)
