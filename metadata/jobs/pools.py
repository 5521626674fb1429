"""Keeps pools: kinds of work kept apart, and how much of each runs at once.

A pool is there as soon as a job names it, without a limit; a row gives it one. The claim enforces
the limit (claims.py).
"""

from __future__ import annotations

from typing import Any

from metadata.database import Connection, Database
from metadata.errors import Conflict, NotFound
from metadata.jobs.jobs import TooManyStored
from metadata.jobs.notices import notify, tasks_wait
from metadata.jobs.types import Pool
from metadata.paging import name_after, page_of
from metadata.types import Page

MAX_POOLS = 1_000
"""The limit for pools of one tenant that have a limit of their own."""

_POOLS = """
WITH names AS (
    SELECT name FROM job_pools WHERE tenant_id = $1
    UNION
    SELECT unnest(ARRAY[pool, reduce_pool]) FROM jobs
    WHERE tenant_id = $1 AND state IN ('open', 'running', 'reducing') AND NOT gone
)
SELECT names.name, p.max_running, p.version,
    (
        SELECT count(*)
        FROM job_tasks AS t JOIN jobs AS j ON j.tenant_id = t.tenant_id AND j.uid = t.job_uid
        WHERE t.tenant_id = $1 AND t.pool = names.name AND t.state = 'running'
          AND t.lease_until > clock_timestamp() AND j.state IN ('open', 'running', 'reducing')
    ) AS running,
    (
        SELECT count(*)
        FROM job_tasks AS t JOIN jobs AS j ON j.tenant_id = t.tenant_id AND j.uid = t.job_uid
        WHERE t.tenant_id = $1 AND t.pool = names.name AND t.state = 'waiting'
          AND j.state IN ('open', 'running', 'reducing')
    ) AS waiting
FROM names
LEFT JOIN job_pools AS p ON p.tenant_id = $1 AND p.name = names.name
"""
_ONE = _POOLS + "WHERE names.name = $2"
_PAGE = _POOLS + "WHERE names.name > $2 ORDER BY names.name LIMIT $3"
_COUNT = "SELECT count(*) FROM job_pools WHERE tenant_id = $1"
_LOCK = "SELECT version FROM job_pools WHERE tenant_id = $1 AND name = $2 FOR UPDATE"
# The version is of the clock, so that a row that is made again has none it had before.
_PUT = """
INSERT INTO job_pools (tenant_id, name, max_running, version)
VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (tenant_id, name) DO UPDATE
SET max_running = excluded.max_running, updated_at = clock_timestamp(),
    version = greatest(excluded.version, job_pools.version + 1)
"""
_DELETE = "DELETE FROM job_pools WHERE tenant_id = $1 AND name = $2"


class JobPoolRepository:
    """Reads and writes `job_pools`, and the pools that jobs name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self, tenant_id: bytes, name: str, max_running: int | None, if_version: int | None = None
    ) -> tuple[Pool, bool]:
        """Set the limit of a pool; return whether it had no row.

        Raises Conflict if `if_version` is another version or there is no row, and TooManyStored.
        """

        async def work(connection: Connection) -> tuple[Pool, bool]:
            version = await _lock(connection, tenant_id, name, if_version)
            if version is None and await connection.fetchval(_COUNT, tenant_id) >= MAX_POOLS:
                raise TooManyStored("pools", MAX_POOLS)
            await connection.execute(_PUT, tenant_id, name, max_running)
            await notify(connection, tenant_id, [tasks_wait(tenant_id, name)])
            return await _expect(connection, tenant_id, name), version is None

        return await self._database.of(tenant_id).transaction(work)

    async def get(self, tenant_id: bytes, name: str) -> Pool:
        """NotFound where it has no row and no job names it."""

        async def work(connection: Connection) -> Pool:
            return await _expect(connection, tenant_id, name)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Pool]:
        """List pools by name; raises BadPageToken."""
        after = name_after(page_token)

        async def work(connection: Connection) -> Page[Pool]:
            rows = await connection.fetch(_PAGE, tenant_id, after, page_size + 1)
            return page_of([_pool(row) for row in rows], page_size)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def delete(self, tenant_id: bytes, name: str, *, if_version: int | None = None) -> None:
        """Delete the limit of a pool; its tasks stay.

        Raises NotFound, and Conflict if `if_version` is another version.
        """

        async def work(connection: Connection) -> None:
            if await _lock(connection, tenant_id, name, if_version) is None:
                raise NotFound("pool", name)
            await connection.execute(_DELETE, tenant_id, name)
            await notify(connection, tenant_id, [tasks_wait(tenant_id, name)])

        await self._database.of(tenant_id).transaction(work)


async def _lock(
    connection: Connection, tenant_id: bytes, name: str, if_version: int | None
) -> int | None:
    version: int | None = await connection.fetchval(_LOCK, tenant_id, name)
    if if_version is not None and version != if_version:
        if version is None:
            raise NotFound("pool", name)
        raise Conflict("pool", name, f"is at version {version}")
    return version


async def _expect(connection: Connection, tenant_id: bytes, name: str) -> Pool:
    row = await connection.fetchrow(_ONE, tenant_id, name)
    if row is None:
        raise NotFound("pool", name)
    return _pool(row)


def _pool(row: Any) -> Pool:
    return Pool(row["name"], row["max_running"], row["running"], row["waiting"], row["version"])
