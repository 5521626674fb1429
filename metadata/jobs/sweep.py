"""The effects of time on jobs: leases that end, jobs whose time is over, and rows that follow a job
that ended or was deleted.

Any process may do any of them at any time, some rows at a time; the scheduler does.
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.jobs.types import LIVE, SUCCEEDED, Lease

_EXPIRED_TASKS = """
FROM job_tasks AS t JOIN jobs AS j ON j.tenant_id = t.tenant_id AND j.uid = t.job_uid
WHERE t.state = 'running' AND t.lease_until <= clock_timestamp()
  AND j.state IN ('open', 'running', 'reducing') AND NOT j.gone
"""
_EXPIRED = (
    "SELECT t.tenant_id, j.depth, t.job_uid, t.number, t.lease"
    + _EXPIRED_TASKS
    + "ORDER BY t.lease_until LIMIT $1"
)
_DUE = (
    "SELECT EXISTS (SELECT"
    + _EXPIRED_TASKS
    + """)
    OR EXISTS (SELECT FROM jobs WHERE NOT gone AND expires_at <= clock_timestamp())
    OR EXISTS (SELECT FROM jobs WHERE sweep)
"""
)
_KEPT = """
UPDATE jobs SET gone = true, sweep = true, version = version + 1
WHERE (tenant_id, uid) IN (
    SELECT tenant_id, uid FROM jobs
    WHERE NOT gone AND expires_at <= clock_timestamp()
    ORDER BY expires_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING uid
"""
_BEHIND = "SELECT tenant_id, uid, state, gone FROM jobs WHERE sweep LIMIT $1"
_LOCK = """
SELECT state, gone FROM jobs
WHERE tenant_id = $1 AND uid = $2 AND sweep
FOR NO KEY UPDATE
"""
_CANCEL_SOME = """
UPDATE job_tasks
SET state = 'cancelled', lease_until = NULL, ready_at = NULL, finished_at = clock_timestamp()
WHERE tenant_id = $1 AND job_uid = $2 AND number IN (
    SELECT number FROM job_tasks
    WHERE tenant_id = $1 AND job_uid = $2
      AND state IN ('waiting', 'delayed', 'running', 'nested')
    LIMIT $3
)
"""
_DELETE_SOME = """
DELETE FROM job_tasks
WHERE tenant_id = $1 AND job_uid = $2 AND number IN (
    SELECT number FROM job_tasks WHERE tenant_id = $1 AND job_uid = $2 LIMIT $3
)
"""
_SWEPT = "UPDATE jobs SET sweep = false WHERE tenant_id = $1 AND uid = $2"
_DELETE = "DELETE FROM jobs WHERE tenant_id = $1 AND uid = $2"
ROWS_AT_ONCE = 5_000


class UnfinishedJob(NamedTuple):
    """A job whose tasks or children are behind its state."""

    tenant_id: bytes
    uid: bytes
    state: str
    gone: bool

    @property
    def ends_children(self) -> bool:
        return self.state != SUCCEEDED


class JobSweepRepository:
    """Sweeps jobs of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self) -> bool:
        """Return whether `expired`, `prune` or `behind` finds anything."""

        async def work(connection: Connection) -> bool:
            return bool(await connection.fetchval(_DUE))

        return await self._database.statement(work, writes=False)

    async def expired(self, limit: int) -> list[tuple[bytes, Lease]]:
        """Return leases that are over, of jobs that are not; the first to end comes first."""

        async def work(connection: Connection) -> list[tuple[bytes, Lease]]:
            rows = await connection.fetch(_EXPIRED, limit)
            return [(row["tenant_id"], Lease(*row[1:])) for row in rows]

        return await self._database.statement(work, writes=False)

    async def prune(self, limit: int) -> int:
        """Deletes jobs that ended longer ago than they are kept; how many."""

        async def work(connection: Connection) -> int:
            return len(await connection.fetch(_KEPT, limit))

        return await self._database.statement(work, writes=True)

    async def behind(self, limit: int) -> list[UnfinishedJob]:
        """Return jobs to sweep."""

        async def work(connection: Connection) -> list[UnfinishedJob]:
            return [UnfinishedJob(*row) for row in await connection.fetch(_BEHIND, limit)]

        return await self._database.statement(work, writes=False)

    async def sweep(self, behind: UnfinishedJob) -> bool:
        """Update some tasks of a job, after its children are cancelled; return whether none
        is left.
        """

        async def work(connection: Connection) -> bool:
            key = (behind.tenant_id, behind.uid)
            row = await connection.fetchrow(_LOCK, *key)
            if row is None or (row["state"] in LIVE and not row["gone"]):
                return True  # swept, or retried
            some = _DELETE_SOME if row["gone"] else _CANCEL_SOME
            status: str = await connection.execute(some, *key, ROWS_AT_ONCE)
            if int(status.rpartition(" ")[2]) == ROWS_AT_ONCE:
                return False
            await connection.execute(_DELETE if row["gone"] else _SWEPT, *key)
            return True

        return await self._database.of(behind.tenant_id).transaction(work)
