"""Locks as others see them: one, all of a tenant's, and the removal of those not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from metadata.database import Connection, Database
from metadata.errors import NotFound
from metadata.locks.fences import hold_floor, raise_floor
from metadata.locks.locks import PLATFORM
from metadata.locks.waiters import notify
from metadata.paging import name_after, page_of
from metadata.types import Page

IDLE_S = 86_400.0
"""Seconds after which a lock without a holder is removed; its name can be used again at any time.
"""

_COLUMNS = """
SELECT l.name, l.fence, l.holder, l.ttl_seconds, l.taken_at, l.labels::text AS labels,
    l.owner IS NOT NULL AND l.lease_until > clock_timestamp() AS held,
    extract(epoch FROM l.lease_until - clock_timestamp())::float8 AS remaining_s,
    (
        SELECT count(*) FROM lock_waiters AS w
        WHERE w.tenant_id = l.tenant_id AND w.name = l.name AND w.alive_until > clock_timestamp()
    ) AS waiting
FROM locks AS l
WHERE l.tenant_id = $1
"""
_ONE = _COLUMNS + "AND l.name = $2"
_PAGE = _COLUMNS + "AND l.name > $2 ORDER BY l.name LIMIT $3"
_DELETE = "DELETE FROM locks WHERE tenant_id = $1 AND name = $2 RETURNING fence"
_TENANTS = """
SELECT DISTINCT tenant_id FROM locks
WHERE tenant_id <> $1 AND lease_until < clock_timestamp() - make_interval(secs => $2)
LIMIT $3
"""
_SWEEP = """
DELETE FROM locks
WHERE tenant_id = $1 AND lease_until < clock_timestamp() - make_interval(secs => $2)
RETURNING fence
"""


@dataclass(frozen=True, slots=True)
class LockState:
    """A lock as one statement saw it.

    `fence` is that of the present holder, or of the last one if there is no holder; then the
    members about the holding are None.
    """

    name: str
    fence: int
    held: bool
    holder: str | None
    ttl_s: float | None
    remaining_s: float | None
    taken_at: datetime | None
    labels: Mapping[str, str]
    waiting: int


class LockCatalog:
    """Rows of `locks` for those who hold none."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: bytes, name: str) -> LockState:
        """Return the state of a lock; raises NotFound if it was never used, or not for long."""

        async def work(connection: Connection) -> LockState:
            row = await connection.fetchrow(_ONE, tenant_id, name)
            if row is None:
                raise NotFound("lock", name)
            return _state(row)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[LockState]:
        """List locks by name; raises BadPageToken."""
        after = name_after(page_token)

        async def work(connection: Connection) -> Page[LockState]:
            rows = await connection.fetch(_PAGE, tenant_id, after, page_size + 1)
            return page_of([_state(row) for row in rows], page_size)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def delete(self, tenant_id: bytes, name: str) -> None:
        """Delete a lock and end its holding; the fence of the next holder is higher.

        Raises NotFound.
        """

        async def work(connection: Connection) -> None:
            await hold_floor(connection, tenant_id)
            fence = await connection.fetchval(_DELETE, tenant_id, name)
            if fence is None:
                raise NotFound("lock", name)
            await raise_floor(connection, tenant_id, [fence])
            await notify(connection, tenant_id, name)

        await self._database.of(tenant_id).transaction(work)

    async def sweep(self, *, idle_s: float = IDLE_S, tenants: int = 100) -> int:
        """Remove locks that had no holder for `idle_s`, of at most `tenants` tenants; return the
        number of locks.
        """

        async def find(connection: Connection) -> list[bytes]:
            rows = await connection.fetch(_TENANTS, PLATFORM, idle_s, tenants)
            return [row["tenant_id"] for row in rows]

        found = await self._database.statement(find, writes=False)
        return sum([await self._sweep(tenant_id, idle_s) for tenant_id in found])

    async def _sweep(self, tenant_id: bytes, idle_s: float) -> int:
        async def work(connection: Connection) -> int:
            await hold_floor(connection, tenant_id)
            fences = [row["fence"] for row in await connection.fetch(_SWEEP, tenant_id, idle_s)]
            await raise_floor(connection, tenant_id, fences)
            return len(fences)

        return await self._database.transaction(work)


def _state(row: Any) -> LockState:
    held = row["held"]
    return LockState(
        name=row["name"],
        fence=row["fence"],
        held=held,
        holder=row["holder"] if held else None,
        ttl_s=row["ttl_seconds"] if held else None,
        remaining_s=max(0.0, row["remaining_s"]) if held else None,
        taken_at=row["taken_at"] if held else None,
        labels=msgspec.json.decode(row["labels"]) if held else {},
        waiting=row["waiting"],
    )
