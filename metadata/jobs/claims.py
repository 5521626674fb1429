"""Claims: tasks of a pool, leased to a worker; and the other steps of leases.

A claim takes what waits by priority and turn, past rows that another claim has at this moment. In a
pool with a limit claims come one after the other, by the lock of its row, and count the leases that
hold before they take any: so over all processes no more are leased than the limit says. A lease
that is over does not count, and is never extended. Time is Postgres' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from metadata.database import Connection, Database
from metadata.jobs.machine import Verdict
from metadata.jobs.transaction import Allowed, JobTransaction, TaskTransition, everywhere
from metadata.jobs.types import REDUCE, Lease, LeasedTask

_LIMIT = """
SELECT max_running FROM job_pools
WHERE tenant_id = $1 AND name = $2 AND max_running IS NOT NULL
FOR UPDATE
"""
_LEASED = """
SELECT count(*)
FROM job_tasks AS t JOIN jobs AS j ON j.tenant_id = t.tenant_id AND j.uid = t.job_uid
WHERE t.tenant_id = $1 AND t.pool = $2 AND t.state = 'running'
  AND t.lease_until > clock_timestamp() AND j.state IN ('open', 'running', 'reducing')
"""
_DUE = """
UPDATE job_tasks SET state = 'waiting', ready_at = NULL
WHERE tenant_id = $1 AND (job_uid, number) IN (
    SELECT job_uid, number FROM job_tasks
    WHERE tenant_id = $1 AND pool = $2 AND state = 'delayed' AND ready_at <= clock_timestamp()
    ORDER BY ready_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
)
"""
_CLAIM = """
WITH picked AS (
    SELECT next.job_uid, next.number
    FROM unnest($3::text[]) AS kinds (kind), LATERAL (
        SELECT t.job_uid, t.number, t.rank, t.turn
        FROM job_tasks AS t
        WHERE t.tenant_id = $1 AND t.pool = $2 AND t.kind = kinds.kind AND t.state = 'waiting'
          AND (SELECT j.state FROM jobs AS j WHERE j.tenant_id = $1 AND j.uid = t.job_uid)
            IN ('open', 'running', 'reducing')
        ORDER BY t.rank, t.turn
        LIMIT $4
        FOR UPDATE OF t SKIP LOCKED
    ) AS next
    ORDER BY next.rank, next.turn
    LIMIT $4
), taken AS (
    UPDATE job_tasks AS t
    SET state = 'running', attempt = t.attempt + 1, lease = gen_random_uuid(),
        lease_until = clock_timestamp() + make_interval(secs => $5::float8), worker = $6,
        ready_at = NULL, started_at = clock_timestamp(), finished_at = NULL
    FROM picked
    WHERE t.tenant_id = $1 AND t.job_uid = picked.job_uid AND t.number = picked.number
    RETURNING t.job_uid, t.number, t.lease, t.kind, t.input, t.attempt, t.lease_until, t.rank,
        t.turn
)
SELECT taken.*, j.depth, j.name, j.labels::text AS labels, j.succeeded
FROM taken JOIN jobs AS j ON j.tenant_id = $1 AND j.uid = taken.job_uid
"""
# Locked in the order in which they are completed, so that neither waits for the other for ever.
_EXTEND = """
WITH held AS (
    SELECT t.job_uid, t.number, t.lease
    FROM job_tasks AS t
    JOIN unnest($2::uuid[], $3::integer[], $4::uuid[]) AS mine (job_uid, number, lease)
      ON t.job_uid = mine.job_uid AND t.number = mine.number AND t.lease = mine.lease
    WHERE t.tenant_id = $1 AND t.state = 'running'
    ORDER BY t.job_uid, t.number
    FOR NO KEY UPDATE OF t
), extended AS (
    UPDATE job_tasks AS t
    SET lease_until = clock_timestamp() + make_interval(secs => $5::float8)
    FROM held, jobs AS j
    WHERE t.tenant_id = $1 AND t.job_uid = held.job_uid AND t.number = held.number
      AND t.lease_until > clock_timestamp()
      AND j.tenant_id = $1 AND j.uid = t.job_uid AND j.state IN ('open', 'running', 'reducing')
    RETURNING t.lease, t.lease_until
)
SELECT mine.lease, extended.lease_until,
    coalesce(j.state IN ('failed', 'cancelled') OR j.gone, false) AS cancelled
FROM unnest($2::uuid[], $3::integer[], $4::uuid[]) AS mine (job_uid, number, lease)
LEFT JOIN extended ON extended.lease = mine.lease
LEFT JOIN jobs AS j ON j.tenant_id = $1 AND j.uid = mine.job_uid
"""
_POOLS = """
SELECT DISTINCT mine.at, t.pool
FROM unnest($2::uuid[], $3::integer[]) WITH ORDINALITY AS mine (job_uid, number, at)
JOIN job_tasks AS t
  ON t.tenant_id = $1 AND t.job_uid = mine.job_uid AND t.number = mine.number
"""
_CLAIMABLE = """
SELECT mine.at
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS mine (tenant_id, pool, kind, at)
WHERE EXISTS (
    SELECT FROM job_tasks AS t
    WHERE t.tenant_id = mine.tenant_id AND t.pool = mine.pool AND t.kind = mine.kind
      AND t.state = 'waiting'
) OR EXISTS (
    SELECT FROM job_tasks AS t
    WHERE t.tenant_id = mine.tenant_id AND t.pool = mine.pool AND t.state = 'delayed'
      AND t.ready_at <= clock_timestamp()
)
"""
_ENDED = """
SELECT mine.tenant_id, mine.uid
FROM unnest($1::uuid[], $2::uuid[]) AS mine (tenant_id, uid)
LEFT JOIN jobs AS j ON j.tenant_id = mine.tenant_id AND j.uid = mine.uid
WHERE j.uid IS NULL OR j.gone OR j.state NOT IN ('open', 'running', 'reducing')
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request of a worker for tasks."""

    pool: str
    kinds: Sequence[str]
    max_tasks: int
    lease_s: float
    worker: str | None = None


class Extension(NamedTuple):
    """`until` None: it was not extended, because its job has ended (`cancelled`) or its lease."""

    until: datetime | None
    cancelled: bool


class JobLeaseRepository:
    """Leases of tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, tenant_id: bytes, wanted: Wanted) -> list[LeasedTask]:
        """Claim at most `wanted.tasks` tasks, the next ones first; return none if none
        waits or the pool is full.
        """

        async def work(connection: Connection) -> list[LeasedTask]:
            room = wanted.max_tasks
            limit = await connection.fetchval(_LIMIT, tenant_id, wanted.pool)
            if limit is not None:
                room = min(room, limit - await connection.fetchval(_LEASED, tenant_id, wanted.pool))
            if room <= 0:
                return []
            got = await _claim(connection, tenant_id, wanted, room)
            if len(got) < room and await _make_due(connection, tenant_id, wanted.pool):
                got += await _claim(connection, tenant_id, wanted, room - len(got))
            return [_leased(row) for row in got]

        return await self._database.of(tenant_id).transaction(work)

    async def apply(
        self,
        tenant_id: bytes,
        items: Sequence[TaskTransition],
        allowed: Allowed = everywhere,
    ) -> list[Verdict]:
        """Apply the transitions in one transaction, and return the verdict on each.

        The verdict is also LOST where `allowed` refuses the pool of the item at that index.
        """

        async def work(connection: Connection) -> list[Verdict]:
            return await JobTransaction(connection, tenant_id, allowed).run(items)

        return await self._database.of(tenant_id).transaction(work)

    async def extend(
        self,
        tenant_id: bytes,
        leases: Sequence[Lease],
        lease_s: float,
        allowed: Allowed = everywhere,
    ) -> list[Extension]:
        """Extend each lease that still holds, for `lease_s` from now on."""

        async def work(connection: Connection) -> list[Extension]:
            mine = await self._of_pools(connection, tenant_id, leases)
            kept = [leases[at] for at, pool in mine.items() if await allowed(at, pool)]
            rows = await connection.fetch(
                *(_EXTEND, tenant_id, [each.job_uid for each in kept]),
                *([each.number for each in kept], [each.secret for each in kept], lease_s),
            )
            found = {row["lease"]: Extension(row["lease_until"], row["cancelled"]) for row in rows}
            lost = Extension(None, False)
            return [found.get(lease.secret, lost) for lease in leases]

        return await self._database.of(tenant_id).transaction(work)

    async def claimable(self, asked: Sequence[tuple[bytes, str, Sequence[str]]]) -> set[int]:
        """Return which of the waiting claims (tenant, pool, kinds) may find a task, by
        their places.
        """
        rows = [
            (tenant_id, pool, kind, at)
            for at, (tenant_id, pool, kinds) in enumerate(asked)
            for kind in kinds
        ]

        async def work(connection: Connection) -> set[int]:
            columns = (list(column) for column in zip(*rows, strict=True))
            return {row["at"] for row in await connection.fetch(_CLAIMABLE, *columns)}

        return await self._database.statement(work, writes=False) if rows else set()

    async def ended(self, jobs: Sequence[tuple[bytes, bytes]]) -> set[tuple[bytes, bytes]]:
        """Return those of these jobs (tenant and uid) that have ended."""

        async def work(connection: Connection) -> set[tuple[bytes, bytes]]:
            columns = (list(column) for column in zip(*jobs, strict=True))
            return {tuple(row) for row in await connection.fetch(_ENDED, *columns)}

        return await self._database.statement(work, writes=False) if jobs else set()

    async def _of_pools(
        self, connection: Connection, tenant_id: bytes, leases: Sequence[Lease]
    ) -> dict[int, str]:
        """Return the pool of each lease's task, by the place of the lease; leases without a
        task are missing.
        """
        uids, numbers = [each.job_uid for each in leases], [each.number for each in leases]
        rows = await connection.fetch(_POOLS, tenant_id, uids, numbers)
        return {row["at"] - 1: row["pool"] for row in sorted(rows, key=lambda row: row["at"])}


async def _claim(connection: Connection, tenant_id: bytes, wanted: Wanted, room: int) -> list[Any]:
    rows = await connection.fetch(
        *(_CLAIM, tenant_id, wanted.pool, list(wanted.kinds)),
        *(room, wanted.lease_s, wanted.worker),
    )
    return sorted(rows, key=lambda row: (row["rank"], row["turn"]))


async def _make_due(connection: Connection, tenant_id: bytes, pool: str) -> bool:
    """Let delayed tasks wait whose time has come; return whether there were any."""
    status: str = await connection.execute(_DUE, tenant_id, pool)
    return status != "UPDATE 0"


def _leased(row: Any) -> LeasedTask:
    number = row["number"]
    return LeasedTask(
        lease=Lease(row["depth"], row["job_uid"], number, row["lease"]),
        job=row["name"],
        kind=row["kind"],
        input=row["input"],
        attempt=row["attempt"],
        lease_until=row["lease_until"],
        labels=msgspec.json.decode(row["labels"]),
        inputs_total=row["succeeded"] if number == REDUCE else None,
    )
