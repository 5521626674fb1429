"""Jobs, tasks and pools as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from metadata.jobs.types import (
    CANCELLED,
    DELAYED,
    FAILED,
    NESTED,
    REDUCE,
    RUNNING,
    SUCCEEDED,
    WAITING,
    Job,
    LeasedTask,
    Output,
    Parent,
    Pool,
    Task,
)
from openapi import jobs as contract

TASK_STATES: Mapping[str, contract.TaskState] = {
    WAITING: "waiting",
    RUNNING: "running",
    DELAYED: "delayed",
    NESTED: "waiting_for_job",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
    CANCELLED: "cancelled",
}
"""The states of tasks in the API, by those of the job store."""


def job_view(job: Job) -> contract.Job:
    """Return a job with the numbers of its tasks."""
    spec = job.spec
    return contract.Job(
        name=spec.name,
        map=spec.map_kind,
        reduce=spec.reduce_kind,
        pool=spec.pool,
        reduce_pool=spec.reduce_pool,
        priority=spec.priority,
        max_attempts=spec.max_attempts,
        retry=contract.TaskRetry(
            min_backoff_seconds=spec.min_backoff_s, max_backoff_seconds=spec.max_backoff_s
        ),
        on_failure=cast(contract.OnFailure, spec.on_failure),
        max_failed=spec.max_failed,
        parent=None if spec.parent is None else _parent(spec.parent),
        keep_seconds=spec.keep_s,
        labels=dict(spec.labels),
        state=cast(contract.JobState, job.state),
        tasks=job.tasks,
        result=None if job.result is None else msgspec.Raw(job.result),
        error=job.error,
        created_at=job.created_at,
        finished_at=job.finished_at,
    )


def task_view(task: Task) -> contract.JobTask:
    """Return a task without its input and output."""
    index, phase = _place(task.number)
    return contract.JobTask(
        index=index,
        phase=phase,
        state=TASK_STATES[task.state],
        attempt=task.attempt,
        error=task.error,
        worker=task.worker,
        wait_for=task.wait_for,
        lease_until=task.lease_until,
        started_at=task.started_at,
        finished_at=task.finished_at,
    )


def output_view(output: Output) -> contract.TaskOutput:
    """Return the output of a map task, or its error."""
    if output.output is None:
        return contract.TaskOutput(output.number, error=output.error or "")
    return contract.TaskOutput(output.number, msgspec.Raw(output.output))


def pool_view(pool: Pool) -> contract.Pool:
    """Return a pool with the numbers of its tasks."""
    return contract.Pool(pool.name, pool.max_running, pool.running, pool.waiting)


def leased_view(task: LeasedTask) -> contract.ClaimedTask:
    """Return a task as the worker that leases it sees it."""
    index, phase = _place(task.lease.number)
    return contract.ClaimedTask(
        lease_id=str(task.lease),
        job=task.job,
        index=index,
        phase=phase,
        kind=task.kind,
        input=msgspec.Raw(task.input),
        attempt=task.attempt,
        lease_until=task.lease_until,
        labels=dict(task.labels),
        inputs_total=task.inputs_total,
    )


def _parent(parent: Parent) -> contract.JobParent:
    index, phase = _place(parent.number)
    return contract.JobParent(parent.job, index, phase)


def _place(number: int) -> tuple[int, contract.Phase]:
    """Return the index and the phase of a task; the reduce task has no index of its own."""
    return (0, "reduce") if number == REDUCE else (number, "map")
