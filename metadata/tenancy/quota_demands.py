"""The demand of each process for the tenants' limits, told to the others through Postgres.

A row belongs to one process, tenant and limit, and counts for `FRESH_S` after it was told. The
answer, from the same statement, is the demand of all processes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from metadata.database import Connection, Database

FRESH_S = 3.0
"""Seconds after which a process that has told nothing asks for nothing any more."""
TELL_DEADLINE_S = 1.5

# Each `told` row sees others as they were when the statement began: its own comes of `mine`.
_TELL = """
WITH mine AS (
    SELECT * FROM unnest($2::uuid[], $3::text[], $4::float8[]) AS of (tenant_id, quota, demand)
), told AS (
    INSERT INTO quota_demands (incarnation, tenant_id, quota, demand, told_at)
    SELECT $1, tenant_id, quota, demand, clock_timestamp() FROM mine
    ON CONFLICT (tenant_id, quota, incarnation)
    DO UPDATE SET demand = EXCLUDED.demand, told_at = EXCLUDED.told_at
)
SELECT mine.tenant_id, mine.quota, mine.demand + coalesce(sum(others.demand), 0) AS total
FROM mine
LEFT JOIN quota_demands AS others
    ON others.tenant_id = mine.tenant_id AND others.quota = mine.quota
    AND others.incarnation <> $1 AND others.told_at > clock_timestamp() - $5::interval
GROUP BY mine.tenant_id, mine.quota, mine.demand
"""
_LEAVE = "DELETE FROM quota_demands WHERE incarnation = $1"
_PRUNE = "DELETE FROM quota_demands WHERE told_at < clock_timestamp() - $1::interval"


class Demand(NamedTuple):
    """A demand in units of the limit: a second's worth of a rate, or a number at once."""

    tenant_id: bytes
    quota: str
    demand: float


class QuotaDemands:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(
        self, incarnation: bytes, demands: Sequence[Demand]
    ) -> Mapping[tuple[bytes, str], float]:
        """Replace the demands that this process told of these; return the demands of all.

        They include this process's, by tenant and limit.
        """
        columns = [list(column) for column in zip(*demands, strict=True)]

        async def work(connection: Connection) -> Mapping[tuple[bytes, str], float]:
            fresh = timedelta(seconds=FRESH_S)
            rows = await connection.fetch(_TELL, incarnation, *columns, fresh)
            return {(row["tenant_id"], row["quota"]): row["total"] for row in rows}

        if not columns:
            return {}
        return await self._database.statement(work, writes=True, deadline_s=TELL_DEADLINE_S)

    async def leave(self, incarnation: bytes) -> None:
        """Delete the demands of a process that asks for nothing any more."""

        async def work(connection: Connection) -> None:
            await connection.execute(_LEAVE, incarnation)

        await self._database.statement(work, writes=True, deadline_s=TELL_DEADLINE_S)

    async def prune(self, older_s: float = 10 * FRESH_S) -> None:
        """Delete rows that no process told again."""

        async def work(connection: Connection) -> None:
            await connection.execute(_PRUNE, timedelta(seconds=older_s))

        await self._database.statement(work, writes=True)
