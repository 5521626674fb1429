"""Keeps the wait list of each lock: tickets in order, and the notification that it may be free.

A waiter takes its ticket first and then tries; a release frees the row first and then looks who
waits. So of the two, one sees the other, and no release goes unheard. A ticket counts while its
process renews it: those of a dead one stop holding up the line after `ALIVE_S`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.lease import RENEW_DEADLINE_S
from metadata.notifier import Notifier

CHANNEL = "packetboat_locks"
ALIVE_S = 3.0
LAST_TICKET = 2**63 - 1
"""The ticket of a caller that does not wait: all waiting callers come first."""

_JOIN = """
INSERT INTO lock_waiters (tenant_id, name, ticket, alive_until)
VALUES ($1, $2, coalesce($3::bigint, nextval('lock_tickets')),
    clock_timestamp() + make_interval(secs => $4))
ON CONFLICT (tenant_id, name, ticket) DO UPDATE SET alive_until = excluded.alive_until
RETURNING ticket
"""
_RENEW = """
UPDATE lock_waiters AS w SET alive_until = clock_timestamp() + make_interval(secs => $4)
FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS mine (tenant_id, name, ticket)
WHERE w.tenant_id = mine.tenant_id AND w.name = mine.name AND w.ticket = mine.ticket
RETURNING w.ticket
"""
_LEAVE = "DELETE FROM lock_waiters WHERE tenant_id = $1 AND name = $2 AND ticket = $3"
_NOTIFY = """
SELECT pg_notify($3, $1::uuid::text || ':' || $2::text)
WHERE EXISTS (
    SELECT FROM lock_waiters
    WHERE tenant_id = $1 AND name = $2 AND alive_until > clock_timestamp()
)
"""
_HELD = """
SELECT EXISTS (
    SELECT FROM locks
    WHERE tenant_id = $1 AND name = $2 AND owner IS NOT NULL AND lease_until > clock_timestamp()
)
"""
_SWEEP = "DELETE FROM lock_waiters WHERE alive_until < clock_timestamp() - interval '1 minute'"


class Ticket(NamedTuple):
    """A place in the line of a lock."""

    tenant_id: bytes
    name: str
    ticket: int


async def notify(connection: Connection, tenant_id: bytes, name: str) -> None:
    """Notify waiters at the commit that the lock may be free."""
    await connection.execute(_NOTIFY, tenant_id, name, CHANNEL)


def notifier(
    database: Database, on_free: Callable[[bytes, str], None], on_connect: Callable[[], None]
) -> Notifier:
    """Return a notifier; `on_free` gets the tenant and the name of each lock that may be free."""

    def heard(payload: str) -> None:
        tenant, _, name = payload.partition(":")
        on_free(uuid.UUID(tenant).bytes, name)

    return Notifier(database, CHANNEL, "packetboat-locks", heard, on_connect)


class LockWaiterRepository:
    """Reads and writes `lock_waiters`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def join(self, tenant_id: bytes, name: str, ticket: int | None = None) -> Ticket:
        """Take the last place in the line, or keep the place of a ticket."""

        async def work(connection: Connection) -> int:
            got: int = await connection.fetchval(_JOIN, tenant_id, name, ticket, ALIVE_S)
            return got

        found = await self._database.statement(
            work, writes=True, deadline_s=RENEW_DEADLINE_S, tenant_id=tenant_id
        )
        return Ticket(tenant_id, name, found)

    async def renew(self, places: Collection[Ticket]) -> set[int]:
        """Renew places; return the tickets that still exist."""
        tenants, names, tickets = (list(column) for column in zip(*places, strict=True))

        async def work(connection: Connection) -> set[int]:
            rows = await connection.fetch(_RENEW, tenants, names, tickets, ALIVE_S)
            return {row["ticket"] for row in rows}

        return await self._database.statement(work, writes=True, deadline_s=RENEW_DEADLINE_S)

    async def leave(self, place: Ticket) -> None:
        """Leave the line without the lock; if the lock is free, notify the others that they may be
        next.
        """

        async def work(connection: Connection) -> None:
            await connection.execute(_LEAVE, *place)
            if not await connection.fetchval(_HELD, place.tenant_id, place.name):
                await notify(connection, place.tenant_id, place.name)

        await self._database.transaction(
            work, deadline_s=RENEW_DEADLINE_S, tenant_id=place.tenant_id
        )

    async def sweep(self) -> None:
        """Removes tickets whose processes have long died."""

        async def work(connection: Connection) -> None:
            await connection.execute(_SWEEP)

        await self._database.statement(work, writes=True)
