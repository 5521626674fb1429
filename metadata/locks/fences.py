"""Fences of locks whose rows are gone: the floor that a tenant's new locks begin above.

A transaction that makes or removes locks of a tenant holds the tenant's floor, so a name that is
used again never gets a fence that it had before.
"""

from __future__ import annotations

from collections.abc import Sequence

from metadata.database import Connection

_MAKE = "INSERT INTO lock_fences (tenant_id, floor) VALUES ($1, 0) ON CONFLICT DO NOTHING"
_HOLD = "SELECT floor FROM lock_fences WHERE tenant_id = $1 FOR UPDATE"
_RAISE = "UPDATE lock_fences SET floor = greatest(floor, $2) WHERE tenant_id = $1"


async def hold_floor(connection: Connection, tenant_id: bytes) -> int:
    """Return the highest fence of rows that are gone; nobody else adds or removes rows until the
    commit.

    Call it first in a transaction: one that locks rows of `locks` before it may wait for ever.
    """
    await connection.execute(_MAKE, tenant_id)
    floor: int = await connection.fetchval(_HOLD, tenant_id)
    return floor


async def raise_floor(connection: Connection, tenant_id: bytes, fences: Sequence[int]) -> None:
    """Rows with these fences are being removed."""
    if fences:
        await connection.execute(_RAISE, tenant_id, max(fences))
