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
    max_backoff_seconds: float = 600.0


class JobParent(msgspec.Struct, frozen=True):
    """The task that waits for a nested job."""

    job: str
    index: int
    phase: Phase = "map"


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


class TaskCounts(msgspec.Struct, frozen=True):
    """Numbers of map tasks. A task that waits for a child counts as running, and a task that waits
    for its back-off as delayed."""

    total: int = 0
    waiting: int = 0
    running: int = 0
    delayed: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


class Job(Progress, msgspec.Struct, frozen=True):
    """A job as it stands."""

    name: str
    map: str
    state: JobState
    """`open` until it is sealed."""
    tasks: TaskCounts
    created_at: datetime
    reduce: str | None = None
    pool: str = "default"
    reduce_pool: str | None = None
    priority: int = 0
    max_attempts: int = 5
    retry: TaskRetry | None = None
    on_failure: OnFailure = "fail"
    max_failed: int | None = None
    parent: JobParent | None = None
    keep_seconds: int = 86400
    labels: dict[str, str] = {}
    result: Any = None
    """The output of the reduce task, any JSON; None in a listing."""
    error: str | None = None
    """The reason that it failed, or that it was cancelled."""
    finished_at: datetime | None = None


class JobTask(msgspec.Struct, frozen=True):
    """A task of a job as it stands."""

    index: int
    """The number of a map task, from 0; the reduce task has 0."""
    state: TaskState
    phase: Phase = "map"
    attempt: int = 0
    """The first is 1; 0 before it."""
    error: str | None = None
    """The error of the last attempt that failed."""
    worker: str | None = None
    wait_for: str | None = None
    """The child whose result is to be its output."""
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class JobOutput(msgspec.Struct, frozen=True):
    """The output of a map task as JSON, or the reason that it has none."""

    index: int
    output: msgspec.Raw = msgspec.Raw(b"null")
    """Any JSON, from a task that succeeded."""
    error: str | None = None
    """The error of a task that failed."""


class ClaimedTask(msgspec.Struct, frozen=True):
    """A leased task: complete it before its lease ends, or it is leased again."""

    lease_id: str
    """The id of this holding of the task."""
    job: str
    index: int
    """The number of a map task, from 0; a reduce task has 0."""
    kind: str
    phase: Phase = "map"
    input: msgspec.Raw = msgspec.Raw(b"null")
    """Any JSON; None for a reduce task."""
    attempt: int = 1
    """The first is 1."""
    lease_until: datetime | None = None
    labels: dict[str, str] = {}
    """The labels of the job."""
    inputs_total: int | None = None
    """The number of map tasks that succeeded, for a reduce task."""


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a leased task that succeeded, or that waits for a nested job."""

    lease_id: str
    output: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Any JSON, at most 256 KiB; None without it."""
    wait_for: str | None = None
    """A job whose parent this task is, instead: its result will be the output of this task, or its
    failure the failure of this task."""


class Failing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a leased task that failed."""

    lease_id: str
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
    type: str
    lease_id: str | None = None
    detail: str = ""


class Pool(msgspec.Struct, frozen=True):
    """A kind of work with a limit of its own, over all workers."""

    name: str
    max_running: int | None = None
    running: int = 0
    waiting: int = 0
