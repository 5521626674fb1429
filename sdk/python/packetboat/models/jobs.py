# Generated from openapi/: `make generate`. Do not edit.
"""Jobs: map tasks, then at most one reduce task; and pools of their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from packetboat.models.data import Failure, Progress

OnFailure = Literal["fail", "continue"]
Phase = Literal["map", "reduce"]
JobState = Literal["open", "running", "reducing", "succeeded", "failed", "cancelled"]
TaskState = Literal[
    "waiting", "running", "delayed", "waiting_for_job", "succeeded", "failed", "cancelled"
]


class TaskRetry(msgspec.Struct, frozen=True):
    """Back-off between the attempts of a task, doubled each time."""

    min_backoff_seconds: float = 1.0
    """Seconds before the second attempt."""
    max_backoff_seconds: float = 600.0
    """Seconds that an attempt waits at most."""


class JobParent(msgspec.Struct, frozen=True):
    """The task that waits for a nested job."""

    job: str
    """The name of the job that has the task."""
    index: int
    """The number of the task, from 0; a reduce task has 0."""
    phase: Phase = "map"
    """The phase of the task."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a job, which never changes."""

    map: str
    """The kind of its map tasks: a name that workers know."""
    reduce: str | None = None
    """The kind of its reduce task; without one its result is None."""
    pool: str = "default"
    """The pool whose workers run its tasks."""
    reduce_pool: str | None = None
    """The pool of the reduce task, if it is another."""
    priority: int = 0
    """A number from 0 to 9; jobs of priority 9 are the most urgent."""
    max_attempts: int = 5
    """Attempts at each task; a lease that ends is one."""
    retry: TaskRetry | None = None
    """Back-off between the attempts of a task, doubled each time."""
    on_failure: OnFailure = "fail"
    """The rule for a task without attempts left: fail the job at once, or continue without its
    output."""
    max_failed: int | None = None
    """With `continue`: one more failed task fails the job."""
    parent: JobParent | None = None
    """The task that may wait for this job; it is cancelled with the job of that."""
    keep_seconds: int = 86400
    """Seconds that the job is kept after its end."""
    labels: Mapping[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""


class TaskCounts(msgspec.Struct, frozen=True):
    """Numbers of map tasks. A task that waits for a child counts as running, and a task that waits
    for its back-off as delayed."""

    total: int = 0
    """The number of map tasks."""
    waiting: int = 0
    """The number of tasks that wait for a worker."""
    running: int = 0
    """The number of tasks that are leased or wait for a nested job."""
    delayed: int = 0
    """The number of tasks that wait for the end of their back-off."""
    succeeded: int = 0
    """The number of tasks that gave an output."""
    failed: int = 0
    """The number of tasks that failed and have no attempts left."""
    cancelled: int = 0
    """The number of tasks that ended with their job before they gave an output."""


class Job(Progress, msgspec.Struct, frozen=True):
    """A job as it stands."""

    name: str
    """The name of the job."""
    map: str
    """The kind of its map tasks: a name that workers know."""
    state: JobState
    """`open` until it is sealed."""
    tasks: TaskCounts
    """The numbers of its map tasks by state."""
    created_at: datetime
    """The time at which it was created."""
    reduce: str | None = None
    """The kind of its reduce task; without one its result is None."""
    pool: str = "default"
    """The pool whose workers run its tasks."""
    reduce_pool: str | None = None
    """The pool of the reduce task, if it is another."""
    priority: int = 0
    """A number from 0 to 9; jobs of priority 9 are the most urgent."""
    max_attempts: int = 5
    """Attempts at each task; a lease that ends is one."""
    retry: TaskRetry | None = None
    """Back-off between the attempts of a task, doubled each time."""
    on_failure: OnFailure = "fail"
    """The rule for a task without attempts left: fail the job at once, or continue without its
    output."""
    max_failed: int | None = None
    """With `continue`: one more failed task fails the job."""
    parent: JobParent | None = None
    """The task that may wait for this job; it is cancelled with the job of that."""
    keep_seconds: int = 86400
    """Seconds that the job is kept after its end."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    result: Any = None
    """The output of the reduce task, any JSON; None in a listing."""
    error: str | None = None
    """The reason that it failed, or that it was cancelled."""
    finished_at: datetime | None = None
    """The time at which it succeeded, failed or was cancelled; None before."""


class JobTask(msgspec.Struct, frozen=True):
    """A task of a job as it stands."""

    index: int
    """The number of a map task, from 0; the reduce task has 0."""
    state: TaskState
    """The state of the task; `waiting` is for a worker, `delayed` for the end of a back-off, and
    `waiting_for_job` for a nested job."""
    phase: Phase = "map"
    """Whether it is a map task or the reduce task."""
    attempt: int = 0
    """The first is 1; 0 before it."""
    error: str | None = None
    """The error of the last attempt that failed."""
    worker: str | None = None
    """The name that the last worker gave itself; None where it gave none, and before the first
    attempt."""
    wait_for: str | None = None
    """The child whose result is to be its output."""
    lease_until: datetime | None = None
    """The time until which a worker leases it; None where none does."""
    started_at: datetime | None = None
    """The time at which the last attempt began; None before the first."""
    finished_at: datetime | None = None
    """The time at which it ended; None before."""


class JobOutput(msgspec.Struct, frozen=True):
    """The output of a map task as JSON, or the reason that it has none."""

    index: int
    """The number of the map task, from 0."""
    output: msgspec.Raw = msgspec.Raw(b"null")
    """Any JSON, from a task that succeeded."""
    error: str | None = None
    """The error of a task that failed."""


class ClaimedTask(msgspec.Struct, frozen=True):
    """A leased task: complete it before its lease ends, or it is leased again."""

    lease_id: str
    """The id of this holding of the task."""
    job: str
    """The name of the job."""
    index: int
    """The number of a map task, from 0; a reduce task has 0."""
    kind: str
    """The kind of the task: the name that its job gave."""
    phase: Phase = "map"
    """Whether it is a map task or the reduce task."""
    input: msgspec.Raw = msgspec.Raw(b"null")
    """Any JSON; None for a reduce task."""
    attempt: int = 1
    """The first is 1."""
    lease_until: datetime | None = None
    """The time at which the lease ends, unless it is extended."""
    labels: dict[str, str] = {}
    """The labels of the job."""
    inputs_total: int | None = None
    """The number of map tasks that succeeded, for a reduce task."""


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a leased task that succeeded, or that waits for a nested job."""

    lease_id: str
    """The id of the lease, as the claim gave it."""
    output: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Any JSON, at most 256 KiB; None without it."""
    wait_for: str | None = None
    """A job whose parent this task is, instead: its result will be the output of this task, or its
    failure the failure of this task."""


class Failing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a leased task that failed."""

    lease_id: str
    """The id of the lease, as the claim gave it."""
    error: str
    """The reason, for people."""
    retry: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether the task gets a further attempt."""
    delay_seconds: float | None = None
    """Seconds until the next attempt, instead of the job's back-off."""


class TaskFailure(Failure, msgspec.Struct, frozen=True):
    """The reason that one lease was not settled."""

    index: int
    """The place of the lease in the request, from 0."""
    status: int
    """The status that a request for this lease alone would get."""
    type: str
    """The type of the problem."""
    lease_id: str | None = None
    """The id of the lease."""
    detail: str = ""
    """The reason, for people."""


class Pool(msgspec.Struct, frozen=True):
    """A kind of work with a limit of its own, over all workers."""

    name: str
    """The name of the pool."""
    max_running: int | None = None
    """Most tasks of the pool that are leased at once; None is no limit, and 0 leases none."""
    running: int = 0
    """The number of its tasks that are leased now."""
    waiting: int = 0
    """The number of its tasks that wait for a worker."""
