"""The facts that a handler may read of its task, and the way to pass the task on to a
nested job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack, overload

import msgspec

from packetboat.models.jobs import ClaimedTask, JobParent, Phase
from packetboat.tasks.definitions import MapTask, ReduceTask
from packetboat.tasks.nested import NestedJob, nested_name
from packetboat.tasks.outcomes import TaskCancelled
from packetboat.tasks.specs import JobOptions, spec_of

In = TypeVar("In")
Out = TypeVar("Out")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TaskContext:
    """The context of a task: the second argument of a handler that takes one."""

    job_name: str
    index: int
    kind: str
    attempt: int = 1
    """The number of the attempt, from 1. Earlier attempts may have run, even to their end."""
    phase: Phase = "map"
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the job."""
    inputs_total: int | None = None
    """The number of map tasks whose outputs a reduce task reads."""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def of(cls, task: ClaimedTask, ended: threading.Event) -> TaskContext:
        """Return the context of a task that a worker holds; `ended` is set once its result
        is not wanted.
        """
        return cls(
            job_name=task.job,
            index=task.index,
            kind=task.kind,
            attempt=task.attempt,
            phase=task.phase,
            labels=task.labels,
            inputs_total=task.inputs_total,
            _ended=ended,
        )

    @property
    def cancelled(self) -> bool:
        """Nobody waits for the output any more: the job ended, the lease is lost, or the time is
        over. An async handler is cancelled then, and a process ended; a thread has to look."""
        return self._ended.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled if the output is not wanted any more."""
        if self.cancelled:
            raise TaskCancelled(f"task {self.index} of {self.job_name}")

    @overload
    def job(
        self,
        task: MapTask[In, Out],
        inputs: Iterable[In],
        *,
        reduce: ReduceTask[Out, Result],
        **options: Unpack[JobOptions],
    ) -> NestedJob[Result]: ...
    @overload
    def job(
        self,
        task: MapTask[In, Any],
        inputs: Iterable[In],
        *,
        reduce: str | None = None,
        **options: Unpack[JobOptions],
    ) -> NestedJob[Any]: ...
    @overload
    def job(
        self,
        task: str,
        inputs: Iterable[Any],
        *,
        reduce: ReduceTask[Any, Any] | str | None = None,
        **options: Unpack[JobOptions],
    ) -> NestedJob[Any]: ...
    def job(
        self,
        task: MapTask[Any, Any] | str,
        inputs: Iterable[In],
        *,
        reduce: ReduceTask[Any, Any] | str | None = None,
        **options: Unpack[JobOptions],
    ) -> NestedJob[Any]:
        """Return a nested job whose result becomes this task's output: return it from the handler.

        Its name comes from this task's, so an attempt after a crash continues it; it is cancelled
        with this job, and has its priority.
        """
        name = options.get("name") or nested_name(self.job_name, self.phase, self.index)
        spec = spec_of(task, reduce, options)
        parent = JobParent(self.job_name, self.index, self.phase)
        spec = msgspec.structs.replace(spec, parent=parent)
        return NestedJob(name, spec, inputs, as_urgent="priority" not in options)
