"""One transaction of transitions of tasks, from the deepest jobs up to the last parent that
changes.

machine.py has its invariants and the order of its locks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from metadata.database import Connection
from metadata.jobs.fair_queueing import make_reduce_task
from metadata.jobs.machine import (
    Child,
    Complete,
    LockedJob,
    LockedTask,
    Transition,
    Verdict,
    apply,
    resolve,
)
from metadata.jobs.notices import job_ended, notify, tasks_wait
from metadata.jobs.types import SUCCEEDED, WAITING, Lease

_JOBS = """
SELECT uid, name, depth, state, sealed_total, succeeded, failed, nested, stored_bytes, reduce_kind,
    max_attempts, min_backoff_s, max_backoff_s, on_failure, max_failed, parent_uid, parent_number,
    version
FROM jobs
WHERE tenant_id = $1 AND uid = ANY ($2::uuid[]) AND NOT gone
ORDER BY uid
FOR NO KEY UPDATE
"""
_TASKS = """
SELECT t.job_uid, t.number, t.pool, t.state, t.attempt, t.lease,
    coalesce(t.lease_until <= clock_timestamp(), false) AS expired, t.wait_for
FROM job_tasks AS t
WHERE t.tenant_id = $1 AND (t.job_uid, t.number) IN (
    SELECT * FROM unnest($2::uuid[], $3::integer[])
)
ORDER BY t.job_uid, t.number
FOR NO KEY UPDATE
"""
# After the parent is locked: a child that ends later finds the task waiting for it.
_CHILDREN = """
SELECT name, uid, parent_uid, parent_number, state, result, error
FROM jobs
WHERE tenant_id = $1 AND name = ANY ($2::text[]) AND NOT gone
"""
_WRITE_TASKS = """
UPDATE job_tasks AS t
SET state = n.state, attempt = n.attempt, lease = n.lease, lease_until = NULL,
    wait_for = n.wait_for, output = n.output, error = n.error,
    ready_at = clock_timestamp() + make_interval(secs => n.delay_s),
    finished_at = CASE WHEN n.state IN ('succeeded', 'failed') THEN clock_timestamp() END
FROM unnest($2::uuid[], $3::integer[], $4::text[], $5::integer[], $6::uuid[], $7::uuid[],
        $8::bytea[], $9::text[], $10::float8[])
    AS n (job_uid, number, state, attempt, lease, wait_for, output, error, delay_s)
WHERE t.tenant_id = $1 AND t.job_uid = n.job_uid AND t.number = n.number
"""
_WRITE_JOBS = """
UPDATE jobs AS j
SET state = n.state, sealed_total = n.sealed_total, succeeded = n.succeeded,
    failed = n.failed, nested = n.nested, stored_bytes = n.stored_bytes,
    version = n.version, result = n.result, error = n.error,
    sweep = j.sweep OR n.state IN ('failed', 'cancelled'),
    finished_at = CASE WHEN n.ended THEN clock_timestamp() END,
    expires_at = CASE WHEN n.ended THEN clock_timestamp() + make_interval(secs => j.keep_s) END
FROM unnest($2::uuid[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $7::bigint[],
        $8::bigint[], $9::bytea[], $10::text[], $11::boolean[], $12::integer[])
    AS n (uid, state, succeeded, failed, nested, stored_bytes, version, result, error, ended,
        sealed_total)
WHERE j.tenant_id = $1 AND j.uid = n.uid
"""


class TaskTransition(NamedTuple):
    """A transition of the task that a lease holds."""

    lease: Lease
    what: Transition


Allowed = Callable[[int, str], Awaitable[bool]]
"""Whether the item at a place may be of a pool."""


async def everywhere(at: int, pool: str) -> bool:
    return True


class Act(NamedTuple):
    """Something done to a job whose row the transaction has locked."""

    depth: int
    job_uid: bytes
    do: Callable[[LockedJob], None]


@dataclass(slots=True)
class _Level:
    """The work on the jobs of one depth."""

    items: list[tuple[int, TaskTransition]] = field(default_factory=list)
    ended: list[Child] = field(default_factory=list)
    """Children of these jobs."""
    acts: list[Act] = field(default_factory=list)

    def jobs(self) -> list[bytes]:
        uids = {item.lease.job_uid for _, item in self.items} | {act.job_uid for act in self.acts}
        return sorted(uids | {child.parent_uid for child in self.ended if child.parent_uid})

    def tasks(self) -> list[tuple[bytes, int]]:
        places = {(item.lease.job_uid, item.lease.number) for _, item in self.items}
        return sorted(
            places
            | {
                (child.parent_uid, child.parent_number)
                for child in self.ended
                if child.parent_uid is not None and child.parent_number is not None
            }
        )


Tasks = Mapping[tuple[bytes, int], LockedTask]


class JobTransaction:
    """Applies transitions within one transaction of the tenant; call `run` once."""

    def __init__(
        self, connection: Connection, tenant_id: bytes, allowed: Allowed = everywhere
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._allowed = allowed
        self._levels: dict[int, _Level] = {}
        self._verdicts: list[Verdict] = []
        self._notices: set[str] = set()
        self._freed: set[str] = set()
        self.ended: list[bytes] = []
        """Jobs that ended in it as failed or cancelled: their children are to follow."""

    async def run(self, items: Sequence[TaskTransition], acts: Sequence[Act] = ()) -> list[Verdict]:
        """Apply each item and return its verdict; do `acts` in the same transaction."""
        self._verdicts = [Verdict.LOST] * len(items)
        for at, item in enumerate(items):
            self._level(item.lease.depth).items.append((at, item))
        for act in acts:
            self._level(act.depth).acts.append(act)
        for depth in range(max(self._levels, default=0), -1, -1):
            if depth in self._levels:
                await self._do(depth, self._levels[depth])
        await notify(self._connection, self._tenant_id, self._notices, self._freed)
        return self._verdicts

    def _level(self, depth: int) -> _Level:
        return self._levels.setdefault(depth, _Level())

    async def _do(self, depth: int, level: _Level) -> None:
        jobs = await self._lock_jobs(level.jobs())
        tasks = await self._lock_tasks(level.tasks())
        children = await self._children(level)
        for at, item in level.items:
            lease = item.lease
            job, task = jobs.get(lease.job_uid), tasks.get((lease.job_uid, lease.number))
            # An id may say of its depth what it likes; the order of locks may not.
            if job is None or task is None or job.depth != depth:
                continue
            if await self._allowed(at, task.pool):
                child = children.get(_waits_for(item.what) or "")
                self._verdicts[at] = apply(job, task, lease.secret, item.what, child)
        for child in level.ended:
            self._resolve(jobs, tasks, child)
        for act in level.acts:
            act.do(jobs[act.job_uid])
        await self._write(depth, jobs, tasks)

    def _resolve(self, jobs: Mapping[bytes, LockedJob], tasks: Tasks, child: Child) -> None:
        assert child.parent_uid is not None
        assert child.parent_number is not None
        job = jobs.get(child.parent_uid)
        task = tasks.get((child.parent_uid, child.parent_number))
        if job is not None and task is not None:
            resolve(job, task, child)

    async def _lock_jobs(self, uids: Sequence[bytes]) -> dict[bytes, LockedJob]:
        rows = await self._connection.fetch(_JOBS, self._tenant_id, uids)
        return {row["uid"]: LockedJob(*row) for row in rows}

    async def _lock_tasks(
        self, places: Sequence[tuple[bytes, int]]
    ) -> dict[tuple[bytes, int], LockedTask]:
        if not places:
            return {}
        uids, numbers = zip(*places, strict=True)
        rows = await self._connection.fetch(_TASKS, self._tenant_id, uids, numbers)
        return {(row["job_uid"], row["number"]): LockedTask(*row) for row in rows}

    async def _children(self, level: _Level) -> dict[str, Child]:
        names = {name for _, item in level.items if (name := _waits_for(item.what)) is not None}
        if not names:
            return {}
        rows = await self._connection.fetch(_CHILDREN, self._tenant_id, sorted(names))
        return {row["name"]: Child(*row[1:]) for row in rows}

    async def _write(self, depth: int, jobs: Mapping[bytes, LockedJob], tasks: Tasks) -> None:
        await self._write_tasks([task for task in tasks.values() if task.changed])
        for job in jobs.values():
            if job.live and job.advance():
                pool = await make_reduce_task(self._connection, self._tenant_id, job.uid)
                self._notices.add(tasks_wait(self._tenant_id, pool))
        changed = [job for job in jobs.values() if job.changed]
        await self._write_jobs(changed)
        for job in changed:
            if not job.live:
                self._end(depth, job)

    def _end(self, depth: int, job: LockedJob) -> None:
        self._notices.add(job_ended(self._tenant_id, job.uid))
        if job.state != SUCCEEDED:
            self.ended.append(job.uid)
        if job.parent_uid is not None and job.parent_number is not None:
            child = Child(
                *(job.uid, job.parent_uid, job.parent_number), job.state, job.result, job.error
            )
            self._level(depth - 1).ended.append(child)

    async def _write_tasks(self, tasks: Sequence[LockedTask]) -> None:
        if not tasks:
            return
        for task in tasks:
            self._freed.add(task.pool)
            if task.state == WAITING:
                self._notices.add(tasks_wait(self._tenant_id, task.pool))
        columns = zip(
            *[
                (
                    *(task.job_uid, task.number, task.state, task.attempt, task.lease),
                    *(task.wait_for, task.output, task.error, task.delay_s),
                )
                for task in tasks
            ],
            strict=True,
        )
        await self._connection.execute(
            _WRITE_TASKS, self._tenant_id, *(list(column) for column in columns)
        )

    async def _write_jobs(self, jobs: Sequence[LockedJob]) -> None:
        if not jobs:
            return
        columns = zip(
            *[
                (
                    *(job.uid, job.state, job.succeeded, job.failed, job.nested),
                    *(job.stored_bytes, job.version, job.result, job.error, not job.live),
                    job.sealed_total,
                )
                for job in jobs
            ],
            strict=True,
        )
        await self._connection.execute(
            _WRITE_JOBS, self._tenant_id, *(list(column) for column in columns)
        )


def _waits_for(what: Transition) -> str | None:
    return what.wait_for if isinstance(what, Complete) else None
