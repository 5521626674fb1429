"""Jobs as a few dictionaries: what the real ones must look like after each step.

Written from the description alone, one thing after the other, without transactions, rows or locks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LIVE = ("open", "running", "reducing")
REDUCE = -1


@dataclass
class TwinTask:
    state: str = "waiting"
    attempt: int = 0
    lease: str | None = None
    """The present lease, or the lease that ended the task."""
    how: str = ""
    """The transition by that lease."""
    wait_for: str | None = None
    output: bytes | None = None


@dataclass
class TwinJob:
    reduce: bool
    max_attempts: int
    on_failure: str
    max_failed: int | None
    parent: tuple[str, int] | None
    state: str = "open"
    sealed: int | None = None
    result: bytes | None = None
    tasks: dict[int, TwinTask] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        return self.state in LIVE

    def maps(self, *states: str) -> int:
        return sum(1 for number, task in self.tasks.items() if number >= 0 and task.state in states)

    def shown(self, task: TwinTask) -> str:
        over = task.state in ("succeeded", "failed")
        return task.state if self.live or over else "cancelled"


class Twin:
    """All jobs by name."""

    def __init__(self) -> None:
        self.jobs: dict[str, TwinJob] = {}

    def add(self, name: str, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.jobs[name].tasks.setdefault(number, TwinTask())

    def seal(self, name: str) -> None:
        job = self.jobs[name]
        job.sealed, job.state = job.maps(*STATES), "running"
        self._go_on(name)

    def waiting(self) -> set[tuple[str, int]]:
        return {
            (name, number)
            for name, job in self.jobs.items()
            for number, task in job.tasks.items()
            if job.live and task.state == "waiting"
        }

    def claimed(self, name: str, number: int, lease: str) -> int:
        """Record a lease of a task; return the number of its attempt."""
        task = self.jobs[name].tasks[number]
        assert task.state == "waiting"
        task.state, task.lease, task.attempt = "running", lease, task.attempt + 1
        return task.attempt

    def holds(self, name: str, number: int, lease: str) -> bool:
        job = self.jobs.get(name)
        task = job.tasks.get(number) if job else None
        return bool(job and job.live and task and task.state == "running" and task.lease == lease)

    def applied_by(self, name: str, number: int, lease: str, how: str) -> bool:
        """Return whether the same lease has made the same transition of the task before."""
        job = self.jobs.get(name)
        task = job.tasks.get(number) if job else None
        return bool(task and task.state != "running" and task.lease == lease and task.how == how)

    def complete(self, name: str, number: int, output: bytes) -> None:
        task = self.jobs[name].tasks[number]
        task.state, task.how, task.output = "succeeded", "complete", output
        self._over(name, number)

    def wait_for(self, name: str, number: int, child: str) -> None:
        task = self.jobs[name].tasks[number]
        task.state, task.how, task.wait_for = "nested", "wait_for", child
        if not self.jobs[child].live:
            self._child_ended(child)

    def fail(self, name: str, number: int, *, retry: bool) -> None:
        job, task = self.jobs[name], self.jobs[name].tasks[number]
        task.how = "fail"
        if retry and task.attempt < job.max_attempts:
            task.state = "waiting"
        else:
            task.state = "failed"
            self._over(name, number)

    def release(self, name: str, number: int) -> None:
        task = self.jobs[name].tasks[number]
        task.state, task.how, task.attempt = "waiting", "release", task.attempt - 1

    def expire(self, name: str, number: int) -> None:
        job, task = self.jobs[name], self.jobs[name].tasks[number]
        task.lease = None
        task.state = "waiting" if task.attempt < job.max_attempts else "failed"
        if task.state == "failed":
            self._over(name, number)

    def cancel(self, name: str) -> None:
        if self.jobs[name].live:
            self._end(name, "cancelled")

    def retry(self, name: str) -> None:
        job = self.jobs[name]
        for child in [child for child, each in self.jobs.items() if each.parent]:
            parent = self.jobs[child].parent
            if parent and parent[0] == name and self.jobs[child].state in ("failed", "cancelled"):
                del self.jobs[child]
        again = [
            number
            for number, task in job.tasks.items()
            if task.state == "failed" or (not job.live and task.state != "succeeded")
        ]
        if not again and job.live:
            return
        for number in again:
            job.tasks[number] = TwinTask()
        job.result = None
        maps_again = any(number >= 0 for number in again)
        if maps_again:
            job.tasks.pop(REDUCE, None)
        if REDUCE in job.tasks:
            job.state = "reducing"
        else:
            job.state = "open" if job.sealed is None else "running"

    def end_orphans(self) -> None:
        """End the children of failed and cancelled jobs, as the sweep does."""
        while doomed := [
            name for name, job in self.jobs.items() if job.live and self.is_orphan(name)
        ]:
            self.cancel(doomed[0])

    def is_orphan(self, name: str) -> bool:
        """Return whether the parent has failed or was cancelled."""
        parent = self.jobs[name].parent
        above = self.jobs.get(parent[0]) if parent else None
        return above is not None and above.state in ("failed", "cancelled")

    def _over(self, name: str, number: int) -> None:
        """Carry out the consequences of the end of a task."""
        job, task = self.jobs[name], self.jobs[name].tasks[number]
        if number == REDUCE:
            job.result = task.output
            self._end(name, task.state)
            return
        failed = job.maps("failed")
        bears = failed == 0 if job.on_failure == "fail" else True
        if job.max_failed is not None and job.on_failure == "continue":
            bears = failed <= job.max_failed
        if not bears:
            self._end(name, "failed")
        else:
            self._go_on(name)

    def _go_on(self, name: str) -> None:
        job = self.jobs[name]
        if job.sealed is None or job.maps("succeeded", "failed") < job.sealed:
            return
        if job.reduce:
            job.state = "reducing"
            job.tasks[REDUCE] = TwinTask()
        else:
            self._end(name, "succeeded")

    def _end(self, name: str, state: str) -> None:
        self.jobs[name].state = state
        self._child_ended(name)

    def _child_ended(self, name: str) -> None:
        child = self.jobs[name]
        parent = self.jobs.get(child.parent[0]) if child.parent else None
        if parent is None or child.parent is None or not parent.live:
            return
        task = parent.tasks.get(child.parent[1])
        if task is None or task.state != "nested" or task.wait_for != name:
            return
        task.state = "succeeded" if child.state == "succeeded" else "failed"
        task.output = (child.result or b"null") if child.state == "succeeded" else None
        self._over(*child.parent)


STATES = ("waiting", "running", "nested", "succeeded", "failed")
