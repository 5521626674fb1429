"""Jobs: created, found and listed. steps.py has their steps, and machine.py their states.

How many a tenant may have is held to beside what others make at the same moment, so a few more may
come to be than the limit says; it is there to bound, not to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from metadata.database import Connection, Database
from metadata.errors import Conflict, MetadataError, NotFound
from metadata.ids import new_uid
from metadata.jobs.types import (
    LIVE,
    MAX_DEPTH,
    SUCCEEDED,
    Job,
    JobSpec,
    Parent,
)
from metadata.paging import name_after, page_of
from metadata.types import Page
from openapi.jobs import TaskCounts

_COLUMNS = """
SELECT j.tenant_id, j.uid, j.name, j.map_kind, j.reduce_kind, j.pool, j.reduce_pool, j.priority,
    j.max_attempts, j.min_backoff_s, j.max_backoff_s, j.on_failure, j.max_failed, j.parent_name,
    j.parent_number, j.keep_s, j.labels::text AS labels, j.state, j.total, j.succeeded, j.failed,
    j.nested, j.error, j.version, j.created_at, j.finished_at,
    CASE WHEN $2 THEN j.result END AS result,
    CASE WHEN j.finished_at IS NULL THEN (
        SELECT count(*) FROM job_tasks AS t
        WHERE t.tenant_id = j.tenant_id AND t.pool = j.pool AND t.job_uid = j.uid
          AND t.state = 'running' AND t.number >= 0
    ) END AS running,
    CASE WHEN j.finished_at IS NULL THEN (
        SELECT count(*) FROM job_tasks AS t
        WHERE t.tenant_id = j.tenant_id AND t.pool = j.pool AND t.state = 'delayed'
          AND t.ready_at > clock_timestamp() AND t.job_uid = j.uid AND t.number >= 0
    ) END AS delayed
FROM jobs AS j
WHERE j.tenant_id = $1 AND NOT j.gone
"""
_ONE = _COLUMNS + "AND j.name = $3"
_PAGE = _COLUMNS + "AND j.name > $3 AND ($4::text IS NULL OR j.state = $4) ORDER BY j.name LIMIT $5"
_COUNT = "SELECT count(*) FROM jobs WHERE tenant_id = $1"
# A share lock: who ends the parent waits for the child to be there, or comes before it.
_PARENT = """
SELECT uid, depth, state, total FROM jobs
WHERE tenant_id = $1 AND name = $2 AND NOT gone
FOR SHARE
"""
# The version is of the clock: a job that is made again has none that it had before.
_MAKE = """
INSERT INTO jobs (tenant_id, uid, name, state, map_kind, reduce_kind, pool, reduce_pool, priority,
    max_attempts, min_backoff_s, max_backoff_s, on_failure, max_failed, keep_s, labels,
    parent_uid, parent_name, parent_number, depth, version)
VALUES ($1, $2, $3, 'open', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::jsonb,
    $16, $17, $18, $19, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (tenant_id, name) WHERE NOT gone DO NOTHING
RETURNING uid
"""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The limits of one tenant, which count finished jobs that are still kept."""

    max_jobs: int = 10_000
    max_tasks: int = 1_000_000
    max_bytes: int = 4 * 1024**3
    """The limit for the bytes of inputs and outputs."""


class TooManyStored(MetadataError):
    """The tenant has reached a limit of stored objects; a deletion makes room."""

    code = "too_many_stored"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"a tenant keeps at most {limit} {what}")
        self.what = what
        self.limit = limit


class BadParent(MetadataError):
    """The job named as the parent cannot be one."""

    code = "bad_parent"


class JobRepository:
    """Names are unique per tenant, among jobs that were not deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant_id: bytes, spec: JobSpec, limits: JobLimits | None = None) -> Job:
        """Open, without tasks. Conflict when the name is taken (`existing` has it); BadParent;
        TooManyStored."""

        async def work(connection: Connection) -> Job:
            existing = await find(connection, tenant_id, spec.name)
            if existing is not None:
                raise Conflict("job", spec.name, "exists already", existing)
            most = (limits or JobLimits()).max_jobs
            if await connection.fetchval(_COUNT, tenant_id) >= most:
                raise TooManyStored("jobs", most)
            uid, depth = await _parent(connection, tenant_id, spec.parent)
            made = await connection.fetchval(_MAKE, *_values(tenant_id, spec, uid, depth))
            job = await find(connection, tenant_id, spec.name)
            if made is None or job is None:
                raise Conflict("job", spec.name, "exists already", job)
            return job

        return await self._database.of(tenant_id).transaction(work)

    async def get(self, tenant_id: bytes, name: str) -> Job:
        """Return a job with its result; raises NotFound."""

        async def work(connection: Connection) -> Job:
            return await expect(connection, tenant_id, name)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def page(
        self,
        tenant_id: bytes,
        *,
        state: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Job]:
        """Return a page of jobs by name, without their results. Raises BadPageToken."""
        after = name_after(page_token)

        async def work(connection: Connection) -> Page[Job]:
            rows = await connection.fetch(_PAGE, tenant_id, False, after, state, page_size + 1)
            return page_of([_job(row) for row in rows], page_size)

        return await self._database.of(tenant_id).statement(work, writes=False)


async def find(connection: Connection, tenant_id: bytes, name: str) -> Job | None:
    row = await connection.fetchrow(_ONE, tenant_id, True, name)
    return None if row is None else _job(row)


async def expect(connection: Connection, tenant_id: bytes, name: str) -> Job:
    """Return a job; raises NotFound."""
    job = await find(connection, tenant_id, name)
    if job is None:
        raise NotFound("job", name)
    return job


async def _parent(
    connection: Connection, tenant_id: bytes, parent: Parent | None
) -> tuple[bytes | None, int]:
    """Return the uid of the parent, and the depth of its child."""
    if parent is None:
        return None, 0
    row = await connection.fetchrow(_PARENT, tenant_id, parent.job)
    if row is None:
        raise BadParent(f"there is no job {parent.job!r}")
    if row["state"] not in LIVE:
        raise BadParent(f"the job {parent.job!r} has ended")
    depth: int = row["depth"] + 1
    if depth > MAX_DEPTH:
        raise BadParent(f"jobs are nested at most {MAX_DEPTH} deep")
    return row["uid"], depth


def _values(
    tenant_id: bytes, spec: JobSpec, parent_uid: bytes | None, depth: int
) -> Sequence[object]:
    parent = spec.parent
    return (
        *(tenant_id, new_uid(), spec.name, spec.map_kind, spec.reduce_kind, spec.pool),
        *(spec.reduce_pool, spec.priority, spec.max_attempts, spec.min_backoff_s),
        *(spec.max_backoff_s, spec.on_failure, spec.max_failed, spec.keep_s),
        *(msgspec.json.encode(dict(spec.labels)).decode(), parent_uid),
        *((None, None) if parent is None else parent),
        depth,
    )


def _job(row: Any) -> Job:
    parent = None
    if row["parent_name"] is not None:
        parent = Parent(row["parent_name"], row["parent_number"])
    spec = JobSpec(
        name=row["name"],
        map_kind=row["map_kind"],
        reduce_kind=row["reduce_kind"],
        pool=row["pool"],
        reduce_pool=row["reduce_pool"],
        priority=row["priority"],
        max_attempts=row["max_attempts"],
        min_backoff_s=row["min_backoff_s"],
        max_backoff_s=row["max_backoff_s"],
        on_failure=row["on_failure"],
        max_failed=row["max_failed"],
        parent=parent,
        keep_s=row["keep_s"],
        labels=msgspec.json.decode(row["labels"]),
    )
    return Job(
        tenant_id=row["tenant_id"],
        uid=row["uid"],
        spec=spec,
        state=row["state"],
        tasks=_counts(row),
        result=row["result"],
        error=row["error"],
        version=row["version"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )


def _counts(row: Any) -> TaskCounts:
    """Return the counts of a row; tasks that an ended job left behind count as cancelled."""
    total, succeeded, failed = row["total"], row["succeeded"], row["failed"]
    left = total - succeeded - failed
    if row["state"] not in LIVE:
        cancelled = 0 if row["state"] == SUCCEEDED else left
        return TaskCounts(total, 0, 0, 0, succeeded, failed, cancelled)
    running, delayed = row["running"] + row["nested"], row["delayed"]
    waiting = max(0, left - running - delayed)
    return TaskCounts(total, waiting, running, delayed, succeeded, failed, 0)
