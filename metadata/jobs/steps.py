"""The steps of a job that callers request: add tasks, seal, cancel, retry, delete.

Each is one transaction that locks the job's row first. Deleting and cancelling are of one row,
however many tasks there are; the sweep (sweep.py) brings the tasks after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from metadata.database import Connection, Database
from metadata.errors import Conflict, MetadataError, NotFound
from metadata.jobs.fair_queueing import TaskBatch, front, make_tasks
from metadata.jobs.jobs import JobLimits, TooManyStored, expect
from metadata.jobs.notices import notify, tasks_wait
from metadata.jobs.transaction import Act, JobTransaction
from metadata.jobs.types import CANCELLED, FAILED, LIVE, REDUCING, SUCCEEDED, Job

_LOCK = """
SELECT uid, depth, state, sealed_total, total, map_kind, pool, coalesce(reduce_pool, pool)
    AS reduce_pool, priority, next_turn, version, parent_uid, parent_name
FROM jobs
WHERE tenant_id = $1 AND name = $2 AND NOT gone
FOR NO KEY UPDATE
"""
_PARENT = "SELECT state FROM jobs WHERE tenant_id = $1 AND uid = $2 FOR SHARE"
_PARENT_OF_ENDED = """
SELECT state FROM jobs WHERE tenant_id = $1 AND uid = $2 AND NOT gone FOR NO KEY UPDATE
"""
_STORED = """
SELECT coalesce(sum(total), 0)::bigint, coalesce(sum(stored_bytes), 0)::bigint FROM jobs
WHERE tenant_id = $1
"""
_ADDED = """
UPDATE jobs SET total = total + $3, stored_bytes = stored_bytes + $4, next_turn = $5
WHERE tenant_id = $1 AND uid = $2
"""
_DIFFERENT = """
SELECT ($3::integer + n.at - 1)::integer
FROM unnest($4::bytea[]) WITH ORDINALITY AS n (input, at)
LEFT JOIN job_tasks AS t
  ON t.tenant_id = $1 AND t.job_uid = $2 AND t.number = $3::integer + n.at - 1
WHERE t.input IS DISTINCT FROM n.input
ORDER BY n.at
LIMIT 1
"""
_LAST = "SELECT max(number) FROM job_tasks WHERE tenant_id = $1 AND job_uid = $2"
_GONE = """
UPDATE jobs SET gone = true, sweep = true, version = version + 1
WHERE tenant_id = $1 AND uid = $2
"""
# A task that failed made its children; it makes them anew.
_FORGET_CHILDREN = """
UPDATE jobs SET gone = true, sweep = true, version = version + 1
WHERE tenant_id = $1 AND parent_uid = $2 AND state IN ('failed', 'cancelled') AND NOT gone
"""
_AGAIN = """
UPDATE job_tasks
SET state = 'waiting', attempt = 0, lease = NULL, lease_until = NULL, wait_for = NULL,
    error = NULL, ready_at = NULL, finished_at = NULL, turn = greatest(turn, $4)
WHERE tenant_id = $1 AND job_uid = $2 AND number >= 0
  AND (state = 'failed' OR $3 AND state <> 'succeeded')
"""
_AGAIN_REDUCE = """
UPDATE job_tasks
SET state = 'waiting', attempt = 0, lease = NULL, lease_until = NULL, wait_for = NULL,
    error = NULL, ready_at = NULL, finished_at = NULL, turn = $3
WHERE tenant_id = $1 AND job_uid = $2 AND number = -1
"""
_DROP_REDUCE = "DELETE FROM job_tasks WHERE tenant_id = $1 AND job_uid = $2 AND number = -1"
_REVIVE = """
UPDATE jobs
SET state = $3, failed = 0, nested = CASE WHEN $4 THEN 0 ELSE nested END, error = NULL,
    result = NULL, finished_at = NULL, expires_at = NULL, sweep = false, version = version + 1
WHERE tenant_id = $1 AND uid = $2
"""
_CHILDREN = """
SELECT name FROM jobs
WHERE tenant_id = $1 AND parent_uid = $2 AND state IN ('open', 'running', 'reducing') AND NOT gone
ORDER BY name
"""
RETRY_DEADLINE_S = 30.0
"""The deadline of a retry, which changes every task of a job."""


class JobSealed(MetadataError):
    """The tasks of the job are final: no task can be added."""

    code = "job_sealed"


class JobEnded(MetadataError):
    """The job has ended, so this step is not possible any more."""

    code = "job_ended"


class JobLive(MetadataError):
    """The job has not ended, so this step is not possible yet."""

    code = "job_live"


class TaskDiffers(MetadataError):
    """There is a task of that index, with another input."""

    code = "task_differs"

    def __init__(self, number: int) -> None:
        super().__init__(f"the task {number} has another input")
        self.number = number


class TasksMissing(MetadataError):
    """The job has other tasks than those with which it was to be sealed."""

    code = "tasks_missing"


class Done(NamedTuple):
    """`ended`: jobs that failed or were cancelled by it, whose children are to follow."""

    job: Job
    ended: Sequence[bytes]


class JobSteps:
    """Steps in the life of one job, found by its name; all raise NotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        tenant_id: bytes,
        name: str,
        first_index: int,
        inputs: Sequence[bytes],
        limits: JobLimits | None = None,
    ) -> int:
        """Add map tasks; return the number of map tasks of the job.

        Existing tasks with these inputs stay; raises TaskDiffers if they have other inputs. Raises
        JobSealed, JobEnded and TooManyStored.
        """

        async def work(connection: Connection) -> int:
            job = await _lock(connection, tenant_id, name)
            if job["sealed_total"] is not None or job["state"] not in LIVE:
                if await _different(connection, tenant_id, job, first_index, inputs) is None:
                    return int(job["total"])
                raise _closed(job, name)
            await _require_room(connection, tenant_id, limits or JobLimits(), inputs)
            return await _add(connection, tenant_id, job, first_index, inputs)

        return await self._database.of(tenant_id).transaction(work)

    async def seal(self, tenant_id: bytes, name: str, total: int) -> Job:
        """Seal the job with exactly the tasks 0 to `total` - 1; a repetition changes nothing.

        Raises JobSealed if it was sealed with another number, TasksMissing and JobEnded.
        """

        async def work(connection: Connection) -> Job:
            job = await _lock(connection, tenant_id, name)
            if job["sealed_total"] == total:
                return await expect(connection, tenant_id, name)
            if job["sealed_total"] is not None or job["state"] not in LIVE:
                raise _closed(job, name)
            last = await connection.fetchval(_LAST, tenant_id, job["uid"])
            if job["total"] != total or (last if last is not None else -1) != total - 1:
                raise TasksMissing(
                    f"the job {name!r} has {job['total']} tasks, not 0 to {total - 1}"
                )
            seal = Act(job["depth"], job["uid"], lambda line: line.seal(total))
            await JobTransaction(connection, tenant_id).run([], [seal])
            return await expect(connection, tenant_id, name)

        return await self._database.of(tenant_id).transaction(work)

    async def cancel(self, tenant_id: bytes, name: str) -> Job:
        """Cancel the job, and its children after it; a job that has ended stays as it is."""

        async def work(connection: Connection) -> Done:
            job = await _lock(connection, tenant_id, name)
            ended = await _cancel(connection, tenant_id, job)
            return Done(await expect(connection, tenant_id, name), ended)

        done = await self._database.of(tenant_id).transaction(work)
        await self._cancel_children_now(tenant_id, done.ended)
        return done.job

    async def cancel_children(self, tenant_id: bytes, ended: Sequence[bytes]) -> None:
        """Cancel the children of jobs that ended, each in its own transaction.

        If this process dies in between, the sweep does the rest.
        """
        for uid in ended:
            for name in await self._children(tenant_id, uid):
                try:
                    below = await self._cancel_child(tenant_id, uid, name)
                except NotFound:
                    continue  # deleted meanwhile
                await self.cancel_children(tenant_id, below)

    async def retry(self, tenant_id: bytes, name: str) -> Job:
        """Run the failed tasks of a job again, from their first attempt on.

        If the job failed or was cancelled, all tasks that did not succeed run again. Raises JobLive
        if it reduces; JobEnded if it succeeded, or if its parent failed or was cancelled: then
        retry the parent.
        """

        async def work(connection: Connection) -> Job:
            job = await _lock(connection, tenant_id, name)
            if job["state"] == REDUCING:
                raise JobLive(f"the job {name!r} is at its reduce task")
            if job["state"] not in (*LIVE, FAILED, CANCELLED):
                raise JobEnded(f"the job {name!r} has succeeded")
            await _require_parent(connection, tenant_id, job)
            await _again(connection, tenant_id, job)
            return await expect(connection, tenant_id, name)

        return await self._database.of(tenant_id).transaction(work, deadline_s=RETRY_DEADLINE_S)

    async def delete(
        self, tenant_id: bytes, name: str, *, force: bool, if_version: int | None = None
    ) -> None:
        """Delete a job.

        Raises JobLive if it has not ended, unless `force` cancels it, and Conflict if `if_version`
        is another version.
        """

        async def work(connection: Connection) -> list[bytes]:
            job = await _lock(connection, tenant_id, name)
            if if_version is not None and job["version"] != if_version:
                raise Conflict("job", name, f"is at version {job['version']}")
            if job["state"] in LIVE and not force:
                raise JobLive(f"the job {name!r} has not ended")
            ended = await _cancel(connection, tenant_id, job)
            await connection.execute(_GONE, tenant_id, job["uid"])
            return ended

        ended = await self._database.of(tenant_id).transaction(work)
        await self._cancel_children_now(tenant_id, ended)

    async def _cancel_children_now(self, tenant_id: bytes, ended: Sequence[bytes]) -> None:
        """Cancel the children of a job whose own end is committed, or leave them to the sweep.

        An error would tell the caller that the job had not ended.
        """
        with suppress(MetadataError):
            await self.cancel_children(tenant_id, ended)

    async def _cancel_child(self, tenant_id: bytes, parent: bytes, name: str) -> Sequence[bytes]:
        """Cancel a child of a job that ended.

        Does nothing if another job has that name by now, or if the parent was told to go on
        meanwhile: its task may have found this child again.
        """

        async def work(connection: Connection) -> Sequence[bytes]:
            job = await _lock(connection, tenant_id, name)
            if job["parent_uid"] != parent or job["state"] not in LIVE:
                return ()
            state = await connection.fetchval(_PARENT_OF_ENDED, tenant_id, parent)
            if state in (*LIVE, SUCCEEDED):
                return ()
            return await _cancel(connection, tenant_id, job)

        return await self._database.of(tenant_id).transaction(work)

    async def _children(self, tenant_id: bytes, uid: bytes) -> list[str]:
        async def work(connection: Connection) -> list[str]:
            return [row["name"] for row in await connection.fetch(_CHILDREN, tenant_id, uid)]

        return await self._database.of(tenant_id).statement(work, writes=False)


async def _lock(connection: Connection, tenant_id: bytes, name: str) -> Any:
    row = await connection.fetchrow(_LOCK, tenant_id, name)
    if row is None:
        raise NotFound("job", name)
    return row


def _closed(job: Any, name: str) -> MetadataError:
    if job["state"] in LIVE:
        return JobSealed(f"the job {name!r} is sealed with {job['sealed_total']} tasks")
    return JobEnded(f"the job {name!r} has ended: it is {job['state']}")


async def _require_room(
    connection: Connection, tenant_id: bytes, limits: JobLimits, inputs: Sequence[bytes]
) -> None:
    tasks, stored_bytes = await connection.fetchrow(_STORED, tenant_id)
    if tasks + len(inputs) > limits.max_tasks:
        raise TooManyStored("tasks", limits.max_tasks)
    if stored_bytes + sum(map(len, inputs)) > limits.max_bytes:
        raise TooManyStored("bytes of inputs and outputs", limits.max_bytes)


async def _add(
    connection: Connection, tenant_id: bytes, job: Any, first: int, inputs: Sequence[bytes]
) -> int:
    turn = max(job["next_turn"], await front(connection, tenant_id, job["pool"], job["priority"]))
    lot = TaskBatch(job["uid"], job["map_kind"], job["pool"], job["priority"], first, turn)
    sizes = await make_tasks(connection, tenant_id, lot, inputs)
    if len(sizes) < len(inputs):
        different = await _different(connection, tenant_id, job, first, inputs)
        if different is not None:
            raise TaskDiffers(different)
    if sizes:
        added = (len(sizes), sum(sizes), turn + len(inputs))
        await connection.execute(_ADDED, tenant_id, job["uid"], *added)
        await notify(connection, tenant_id, [tasks_wait(tenant_id, job["pool"])])
    return int(job["total"]) + len(sizes)


async def _different(
    connection: Connection, tenant_id: bytes, job: Any, first: int, inputs: Sequence[bytes]
) -> int | None:
    """Return the first task that does not exist, or has another input."""
    found: int | None = await connection.fetchval(_DIFFERENT, tenant_id, job["uid"], first, inputs)
    return found


async def _cancel(connection: Connection, tenant_id: bytes, job: Any) -> list[bytes]:
    transaction = JobTransaction(connection, tenant_id)
    act = Act(job["depth"], job["uid"], lambda line: line.cancel())
    await transaction.run([], [act])
    return transaction.ended


async def _require_parent(connection: Connection, tenant_id: bytes, job: Any) -> None:
    if job["parent_uid"] is None:
        return
    state = await connection.fetchval(_PARENT, tenant_id, job["parent_uid"])
    if state in (FAILED, CANCELLED):
        raise JobEnded(f"its parent {job['parent_name']!r} has ended: it is {state}")


async def _again(connection: Connection, tenant_id: bytes, job: Any) -> None:
    uid, ended = job["uid"], job["state"] not in LIVE
    turn = await front(connection, tenant_id, job["pool"], job["priority"])
    await connection.execute(_FORGET_CHILDREN, tenant_id, uid)
    changed = await connection.execute(_AGAIN, tenant_id, uid, ended, turn)
    state = "open" if job["sealed_total"] is None else "running"
    if changed != "UPDATE 0":
        await connection.execute(_DROP_REDUCE, tenant_id, uid)
    elif await _again_reduce(connection, tenant_id, job):
        state = REDUCING
    elif not ended:
        return  # nothing has failed
    await connection.execute(_REVIVE, tenant_id, uid, state, ended)
    pools = {job["pool"], job["reduce_pool"]}
    await notify(connection, tenant_id, [tasks_wait(tenant_id, pool) for pool in pools])


async def _again_reduce(connection: Connection, tenant_id: bytes, job: Any) -> bool:
    turn = await front(connection, tenant_id, job["reduce_pool"], job["priority"])
    status: str = await connection.execute(_AGAIN_REDUCE, tenant_id, job["uid"], turn)
    return status != "UPDATE 0"
