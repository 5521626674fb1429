"""What the operations of jobs and pools show."""

from __future__ import annotations

from typing import Any

import msgspec

from metadata.jobs.types import NESTED, REDUCE, Job, LeasedTask, Output, Pool, Task

WAITING_FOR_JOB = "waiting_for_job"
"""What a task is called that waits for a child."""


def job_view(job: Job) -> dict[str, Any]:
    spec = job.spec
    return {
        "name": spec.name,
        "map": spec.map_kind,
        "reduce": spec.reduce_kind,
        "pool": spec.pool,
        "reduce_pool": spec.reduce_pool,
        "priority": spec.priority,
        "max_attempts": spec.max_attempts,
        "retry": {
            "min_backoff_seconds": spec.min_backoff_s,
            "max_backoff_seconds": spec.max_backoff_s,
        },
        "on_failure": spec.on_failure,
        "max_failed": spec.max_failed,
        "parent": None if spec.parent is None else _place(spec.parent.number, job=spec.parent.job),
        "keep_seconds": spec.keep_s,
        "labels": dict(spec.labels),
        "state": job.state,
        "tasks": job.tasks,
        "result": None if job.result is None else msgspec.Raw(job.result),
        "error": job.error,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
    }


def task_view(task: Task) -> dict[str, Any]:
    return {
        **_place(task.number),
        "state": WAITING_FOR_JOB if task.state == NESTED else task.state,
        "attempt": task.attempt,
        "error": task.error,
        "worker": task.worker,
        "wait_for": task.wait_for,
        "lease_until": task.lease_until,
        "started_at": task.started_at,
        "finished_at": task.finished_at,
    }


def output_view(output: Output) -> dict[str, Any]:
    if output.output is None:
        return {"index": output.number, "error": output.error or ""}
    return {"index": output.number, "output": msgspec.Raw(output.output)}


def pool_view(pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "max_running": pool.max_running,
        "running": pool.running,
        "waiting": pool.waiting,
    }


def leased_view(task: LeasedTask) -> dict[str, Any]:
    return {
        "lease_id": str(task.lease),
        "job": task.job,
        **_place(task.lease.number),
        "kind": task.kind,
        "input": msgspec.Raw(task.input),
        "attempt": task.attempt,
        "lease_until": task.lease_until,
        "labels": dict(task.labels),
        "inputs_total": task.inputs_total,
    }


def _place(number: int, **more: str) -> dict[str, Any]:
    """The reduce task has no index of its own, and is told by its phase."""
    if number == REDUCE:
        return {**more, "index": 0, "phase": "reduce"}
    return {**more, "index": number, "phase": "map"}
