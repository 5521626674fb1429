"""What the operations of jobs and pools take."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from metadata.jobs.machine import MAX_ERROR_CHARS
from metadata.jobs.types import REDUCE, JobSpec, Parent

MAX_JOB_TASKS = 100_000
MAX_TASKS_AT_ONCE = 1_000
MAX_LEASES_AT_ONCE = 100
MAX_INPUT_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 256 * 1024
MAX_ADD_BODY_BYTES = 10 * 1024 * 1024
MAX_COMPLETE_BODY_BYTES = 32 * 1024 * 1024
MAX_FAIL_BODY_BYTES = 8 * 1024 * 1024
MAX_WAIT_S = 60
MAX_LEASE_S = 3600
MAX_BACKOFF_S = 86_400
MAX_KEEP_S = 365 * 86_400
MAX_NUMBER = 2**31 - 1
MAX_RUNNING = 1_000_000
MAX_TEXT_CHARS = 128
KIND_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z"

Kind = Annotated[str, msgspec.Meta(pattern=KIND_PATTERN)]
Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
Backoff = Annotated[float, msgspec.Meta(ge=0, le=MAX_BACKOFF_S)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=1, le=MAX_LEASE_S)]
LeaseId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
LeaseIds = Annotated[list[LeaseId], msgspec.Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]
WorkerName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MAX_TEXT_CHARS, pattern=r"^[^\x00-\x1f\x7f]*\Z")
]


class TaskRetry(msgspec.Struct, forbid_unknown_fields=True):
    """Back-off between attempts, doubled each time."""

    min_backoff_seconds: Backoff = 1.0
    max_backoff_seconds: Backoff = 600.0


class JobParent(msgspec.Struct, forbid_unknown_fields=True):
    """The task that may wait for a job."""

    job: str
    index: Number
    phase: Literal["map", "reduce"] = "map"


class JobPut(msgspec.Struct, forbid_unknown_fields=True):
    """What `PUT /jobs/{job}` takes."""

    map: Kind
    name: str | UnsetType = UNSET
    reduce: Kind | None = None
    pool: str = "default"
    reduce_pool: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    retry: TaskRetry | None = None
    on_failure: Literal["fail", "continue"] = "fail"
    max_failed: Number | None = None
    parent: JobParent | None = None
    keep_seconds: Annotated[int, msgspec.Meta(ge=0, le=MAX_KEEP_S)] = 86_400
    labels: dict[str, str] = {}


class JobCreate(JobPut, forbid_unknown_fields=True, kw_only=True):
    """What `POST /jobs` takes."""

    name: str


class JobSeal(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /jobs/{job}:seal` takes."""

    tasks: Annotated[int, msgspec.Meta(ge=0, le=MAX_JOB_TASKS)]


class TasksAdd(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /jobs/{job}/tasks` takes beside the inputs."""

    first_index: Annotated[int, msgspec.Meta(ge=0, lt=MAX_JOB_TASKS)]


class PoolPut(msgspec.Struct, forbid_unknown_fields=True):
    """What `PUT /pools/{pool}` takes."""

    max_running: Annotated[int, msgspec.Meta(ge=0, le=MAX_RUNNING)] | None = None


class TasksClaim(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /pools/{pool}:claim` takes."""

    kinds: Annotated[list[Kind], msgspec.Meta(min_length=1, max_length=100)]
    max_tasks: Annotated[int, msgspec.Meta(ge=1, le=MAX_LEASES_AT_ONCE)] = 1
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    lease_seconds: LeaseSeconds = 30.0
    worker: WorkerName | None = None


class TaskCompletion(msgspec.Struct, forbid_unknown_fields=True):
    """One item of what `POST /tasks:complete` takes, beside its output."""

    lease_id: LeaseId
    wait_for: str | None = None


class TaskFailing(msgspec.Struct, forbid_unknown_fields=True):
    """One item of what `POST /tasks:fail` takes."""

    lease_id: LeaseId
    error: Annotated[str, msgspec.Meta(max_length=MAX_ERROR_CHARS)]
    retry: bool = True
    delay_seconds: Backoff | None = None


class TasksFail(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /tasks:fail` takes."""

    tasks: Annotated[list[TaskFailing], msgspec.Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]


class TasksExtend(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /tasks:extend` takes."""

    lease_ids: LeaseIds
    lease_seconds: LeaseSeconds = 30.0


class TasksRelease(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /tasks:release` takes."""

    lease_ids: LeaseIds


def spec_of(body: JobPut, name: str) -> JobSpec:
    """Raises a 422 Problem."""
    errors = name_errors(name) + name_errors(body.pool, "pool") + label_errors(body.labels)
    if body.reduce_pool is not None:
        errors += name_errors(body.reduce_pool, "reduce_pool")
    if body.name not in (UNSET, name):
        errors.append(FieldError("name", f"is {name!r} in the path"))
    if body.parent is not None:
        errors += name_errors(body.parent.job, "parent.job")
    if body.parent is not None and body.parent.job == name:
        errors.append(FieldError("parent.job", "is the job itself"))
    retry = body.retry or TaskRetry()
    if errors:
        raise invalid("The body does not fit.", errors)
    return JobSpec(
        name=name,
        map_kind=body.map,
        reduce_kind=body.reduce,
        pool=body.pool,
        reduce_pool=body.reduce_pool,
        priority=body.priority,
        max_attempts=body.max_attempts,
        min_backoff_s=retry.min_backoff_seconds,
        max_backoff_s=retry.max_backoff_seconds,
        on_failure=body.on_failure,
        max_failed=body.max_failed,
        parent=None if body.parent is None else _parent(body.parent),
        keep_s=body.keep_seconds,
        labels=body.labels,
    )


def _parent(parent: JobParent) -> Parent:
    return Parent(parent.job, REDUCE if parent.phase == "reduce" else parent.index)
