"""Jobs: map tasks, then at most one reduce task; and the pools whose workers run them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec

Out = TypeVar("Out")
OnFailure = Literal["fail", "continue"]
Phase = Literal["map", "reduce"]
JobState = Literal["open", "running", "reducing", "succeeded", "failed", "cancelled"]
TaskState = Literal[
    "waiting", "delayed", "running", "waiting_for_job", "succeeded", "failed", "cancelled"
]


class TaskRetry(msgspec.Struct, frozen=True):
    """Back-off between the attempts of a task."""

    min_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 600.0


class JobParent(msgspec.Struct, frozen=True):
    """The task that waits for a nested job; the index of a reduce task is 0."""

    job: str
    index: int
    phase: Phase = "map"


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job is made of. `map` and `reduce` are kinds: names that workers know."""

    map: str
    reduce: str | None = None
    pool: str = "default"
    reduce_pool: str | None = None
    priority: int = 0
    max_attempts: int = 5
    retry: TaskRetry | None = None
    on_failure: OnFailure = "fail"
    """Of a task that failed for good: fail the job at once, or go on without its output."""
    max_failed: int | None = None
    """With `continue`: the job fails where more tasks than that fail."""
    parent: JobParent | None = None
    keep_seconds: int = 86_400
    """How long a finished job stays."""
    labels: dict[str, str] = {}


class TaskCounts(msgspec.Struct, frozen=True):
    """How many map tasks of a job are in which state."""

    total: int = 0
    waiting: int = 0
    running: int = 0
    delayed: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


class Job(msgspec.Struct, frozen=True):
    """A job as it stands: `result` once it succeeded, `error` where it failed."""

    name: str
    map: str
    state: JobState
    tasks: TaskCounts
    created_at: datetime
    reduce: str | None = None
    pool: str = "default"
    reduce_pool: str | None = None
    priority: int = 0
    max_attempts: int = 5
    on_failure: OnFailure = "fail"
    max_failed: int | None = None
    parent: JobParent | None = None
    keep_seconds: int = 86_400
    labels: dict[str, str] = {}
    result: Any = None
    error: str | None = None
    finished_at: datetime | None = None
    retry: TaskRetry | None = None

    @property
    def finished(self) -> bool:
        """Nothing of it runs any more."""
        return self.state in ("succeeded", "failed", "cancelled")

    @property
    def fraction(self) -> float:
        """Of its map tasks, those that are over; 1.0 once the job succeeded."""
        if self.state == "succeeded":
            return 1.0
        over = self.tasks.succeeded + self.tasks.failed + self.tasks.cancelled
        return over / self.tasks.total if self.tasks.total else 0.0


class JobTask(msgspec.Struct, frozen=True):
    """A task of a job as it stands; `error` is of its last attempt."""

    index: int
    state: TaskState
    phase: Phase = "map"
    attempt: int = 0
    error: str | None = None
    worker: str | None = None
    wait_for: str | None = None
    """The nested job whose result is to be its output."""
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class JobOutput(msgspec.Struct, frozen=True):
    """What a map task gave, as JSON, or why it gave nothing."""

    index: int
    output: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class TaskOutput(msgspec.Struct, Generic[Out], frozen=True):
    """What a map task gave, or why it gave nothing: one of them is None, unless it gave None."""

    index: int
    value: Out | None = None
    error: str | None = None


class ClaimedTask(msgspec.Struct, frozen=True):
    """A leased task: complete it before its lease ends or it is handed out again."""

    lease_id: str
    job: str
    index: int
    kind: str
    phase: Phase = "map"
    input: msgspec.Raw = msgspec.Raw(b"null")
    attempt: int = 1
    lease_until: datetime | None = None
    labels: dict[str, str] = {}
    inputs_total: int | None = None


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a leased task: its output, or the nested job whose result is to be its output."""

    lease_id: str
    output: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    wait_for: str | None = None


class Failing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a leased task: why it failed, and whether another attempt may help."""

    lease_id: str
    error: str
    retry: bool | msgspec.UnsetType = msgspec.UNSET
    delay_seconds: float | None = None


class TaskFailure(msgspec.Struct, frozen=True):
    """Why one lease was not settled."""

    index: int
    status: int
    type: str
    detail: str = ""
    lease_id: str | None = None

    @property
    def slug(self) -> str:
        return self.type.rpartition("/")[2]


class TasksSettled(msgspec.Struct, frozen=True):
    """How many leases were settled and which not; `cancelled`: of an extension, those whose tasks
    are to end because their job was cancelled or failed."""

    count: int
    failures: tuple[TaskFailure, ...] = ()
    cancelled: tuple[str, ...] = ()


class Pool(msgspec.Struct, frozen=True):
    """A kind of work that is kept apart: how many of its tasks run at once over all workers."""

    name: str
    max_running: int | None = None
    running: int = 0
    waiting: int = 0
