"""The state machine of a job and its tasks, as decisions about rows that are locked. Pure.

    task   waiting ─claim→ running ─complete→ succeeded
           running ─complete, waiting for a child→ nested ─the child ends→ succeeded | failed
           running ─fail, with attempts left→ delayed ─its time comes→ waiting
           running ─fail for good, or without attempts left→ failed
           running ─release, or the lease ends→ waiting, or failed without attempts left
           failed, and all that a job's end left behind ─retry→ waiting

    job    open ─seal→ running ─the last map task→ reducing ─the reduce task→ succeeded
           open, running, reducing ─a failure its policy does not bear→ failed
           open, running, reducing ─cancel→ cancelled
           failed, cancelled ─retry→ open | running | reducing

Invariants, whichever process dies at any time:

1. The lease that holds a task makes its transition, once: the first completion counts, the same one
   repeated is answered as done, and one under a lease that is over changes nothing.
2. In the transaction that ends a task its job's counters move; if that was the last thing the
   job waited for, the reduce task is made or the job ends in it; and if the job ends, the task of
   its parent that waits for it ends in it, and so on upwards.
3. A job that has ended as failed or cancelled decides for its tasks: none of them is claimed,
   extended or completed any more, whatever their rows say. `sweep` brings the rows after it.

Transactions lock jobs before their tasks, deeper jobs before those above them, and among equals by
uid; tasks by job and number. So no two wait for each other.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from metadata.jobs.types import (
    CANCELLED,
    DELAYED,
    FAILED,
    LIVE,
    NESTED,
    REDUCE,
    REDUCING,
    RUNNING,
    SUCCEEDED,
    WAITING,
)
from openapi.jobs import MAX_ERROR_CHARS


class Verdict(enum.Enum):
    """The outcome of one transition.

    LOST: its lease holds nothing. NO_CHILD: the task has no such child.
    """

    DONE = "done"
    LOST = "lost"
    NO_CHILD = "no_child"


@dataclass(frozen=True, slots=True)
class Complete:
    """Complete a task with its output, JSON; or let it wait for the result of a child."""

    output: bytes = b"null"
    wait_for: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """`delay_s` None: the back-off of the job."""

    error: str
    retry: bool = True
    delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Back, and the attempt does not count."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Take a task back whose lease has ended."""


Transition = Complete | Fail | Release | Expire


@dataclass(slots=True)
class LockedJob:
    """The columns of a job's row on which decisions depend, and which they change."""

    uid: bytes
    name: str
    depth: int
    state: str
    sealed_total: int | None
    succeeded: int
    failed: int
    nested: int
    stored_bytes: int
    reduce_kind: str | None
    max_attempts: int
    min_backoff_s: float
    max_backoff_s: float
    on_failure: str
    max_failed: int | None
    parent_uid: bytes | None
    parent_number: int | None
    version: int
    result: bytes | None = None
    error: str | None = None
    changed: bool = False

    @property
    def live(self) -> bool:
        return self.state in LIVE

    def end(self, state: str, *, result: bytes | None = None, error: str | None = None) -> None:
        self._become(state)
        self.result = result
        self.error = None if error is None else error[:MAX_ERROR_CHARS]

    def _become(self, state: str) -> None:
        self.state = state
        self.version += 1
        self.changed = True

    def seal(self, total: int) -> None:
        """Seal the job with `total` map tasks, which exist."""
        self.sealed_total = total
        self._become(RUNNING)

    def cancel(self) -> None:
        """Cancel the job; change nothing if it has ended before."""
        if self.live:
            self.end(CANCELLED, error="it was cancelled")

    def advance(self) -> bool:
        """Goes on where its map tasks are over; True: the reduce task is to be made."""
        if self.state not in LIVE or self.state == REDUCING or self.sealed_total is None:
            return False
        if self.succeeded + self.failed < self.sealed_total:
            return False
        if self.reduce_kind is None:
            self.end(SUCCEEDED)
            return False
        self._become(REDUCING)
        return True

    def backoff_s(self, attempt: int) -> float:
        """Return the back-off after that attempt; the first is 1."""
        doubled = self.min_backoff_s * 2.0 ** min(attempt - 1, 60)
        return float(min(self.max_backoff_s, doubled))

    def bears(self) -> bool:
        """Return whether the job's policy bears the map tasks that failed until now."""
        if self.on_failure == "fail":
            return self.failed == 0
        return self.max_failed is None or self.failed <= self.max_failed


@dataclass(slots=True)
class LockedTask:
    """The columns of a task's row on which decisions depend, and which they change."""

    job_uid: bytes
    number: int
    pool: str
    state: str
    attempt: int
    lease: bytes | None
    expired: bool
    wait_for: bytes | None
    output: bytes | None = None
    error: str | None = None
    delay_s: float | None = None
    changed: bool = False

    def become(self, state: str) -> None:
        self.state = state
        self.changed = True


@dataclass(frozen=True, slots=True)
class Child:
    """A job that a task may wait for, as it stands."""

    uid: bytes
    parent_uid: bytes | None
    parent_number: int | None
    state: str
    result: bytes | None
    error: str | None

    def is_of(self, task: LockedTask) -> bool:
        return (self.parent_uid, self.parent_number) == (task.job_uid, task.number)


def apply(
    job: LockedJob, task: LockedTask, lease: bytes, what: Transition, child: Child | None = None
) -> Verdict:
    """Apply one transition under a lease; `child` is the job for which it waits, if any."""
    if task.lease != lease:
        return Verdict.LOST
    if task.state != RUNNING:
        return Verdict.DONE if _was(task, what) else Verdict.LOST
    if not job.live:
        return Verdict.LOST
    match what:
        case Complete(wait_for=None):
            _succeed(job, task, what.output)
        case Complete():
            if child is None or not child.is_of(task):
                return Verdict.NO_CHILD
            task.wait_for = child.uid
            _count(job, nested=task.number != REDUCE)
            task.become(NESTED)
            if child.state not in LIVE:
                resolve(job, task, child)
        case Fail():
            _fail(job, task, what)
        case Release():
            task.attempt -= 1
            task.become(WAITING)
        case Expire():
            if not task.expired:
                return Verdict.LOST
            task.lease = None
            if task.attempt >= job.max_attempts:
                _fail_for_good(job, task, "its lease ended, and there is no attempt left")
            else:
                task.become(WAITING)
    return Verdict.DONE


def resolve(job: LockedJob, task: LockedTask, child: Child) -> None:
    """End a task that waits for a child, because the child has ended."""
    if task.state != NESTED or task.wait_for != child.uid or not job.live:
        return
    _count(job, nested=-(task.number != REDUCE))
    if child.state == SUCCEEDED:
        _succeed(job, task, child.result or b"null")
    else:
        _fail_for_good(job, task, f"its job was {child.state}: {child.error or 'no reason given'}")


def _was(task: LockedTask, what: Transition) -> bool:
    """Return whether the same lease has made the same transition of the task before."""
    match what:
        case Complete(wait_for=None):
            return task.state == SUCCEEDED and task.wait_for is None
        case Complete():
            return task.wait_for is not None
        case Fail():
            return task.state in (WAITING, DELAYED, FAILED)
        case _:
            return isinstance(what, Release) and task.state == WAITING


def _count(
    job: LockedJob, *, succeeded: int = 0, failed: int = 0, nested: int = 0, stored_bytes: int = 0
) -> None:
    job.succeeded += succeeded
    job.failed += failed
    job.nested += nested
    job.stored_bytes += stored_bytes
    job.changed = True


def _succeed(job: LockedJob, task: LockedTask, output: bytes) -> None:
    task.output, task.error = output, None
    task.become(SUCCEEDED)
    if task.number == REDUCE:
        job.end(SUCCEEDED, result=output)
        return
    _count(job, succeeded=1, stored_bytes=len(output))


def _fail(job: LockedJob, task: LockedTask, what: Fail) -> None:
    error = what.error[:MAX_ERROR_CHARS]
    if not what.retry or task.attempt >= job.max_attempts:
        _fail_for_good(job, task, error)
        return
    delay_s = job.backoff_s(task.attempt) if what.delay_s is None else what.delay_s
    task.error, task.delay_s = error, delay_s
    task.become(DELAYED if delay_s > 0 else WAITING)


def _fail_for_good(job: LockedJob, task: LockedTask, error: str) -> None:
    task.error = error[:MAX_ERROR_CHARS]
    task.become(FAILED)
    if task.number == REDUCE:
        job.end(FAILED, error=f"the reduce task failed: {error}")
        return
    _count(job, failed=1)
    if not job.bears():
        job.end(FAILED, error=f"task {task.number} failed: {error}")
