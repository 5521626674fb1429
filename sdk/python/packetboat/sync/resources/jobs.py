# Generated from aio/resources/jobs.py: `make generate`. Do not edit.
"""Jobs: start and follow them, and run their tasks."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from packetboat.calls import jobs as calls
from packetboat.calls import work
from packetboat.models import Page
from packetboat.models.jobs import (
    ClaimedTask,
    Completion,
    Failing,
    Job,
    JobOutput,
    JobSpec,
)
from packetboat.models.task_results import TasksSettled
from packetboat.sync.operations.jobs import JobsOperations
from packetboat.sync.resources.job_handles import JobHandle
from packetboat.sync.resources.pages import every

if TYPE_CHECKING:
    from packetboat.tasks.definitions import MapTask, ReduceTask
    from packetboat.tasks.specs import JobOptions

In = TypeVar("In")
Out = TypeVar("Out")
Result = TypeVar("Result")
OUTAGE_S = 60.0
"""Seconds of an outage through which a wait for a job goes on."""


class Jobs(JobsOperations):
    """Jobs: start and follow them, and run their tasks."""

    @overload
    def run(
        self,
        task: MapTask[In, Out],
        inputs: Iterable[In],
        *,
        reduce: ReduceTask[Out, Result],
        timeout_s: float | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Out, Result]: ...
    @overload
    def run(
        self,
        task: MapTask[In, Out],
        inputs: Iterable[In],
        *,
        reduce: None = None,
        timeout_s: float | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Out, None]: ...
    @overload
    def run(
        self,
        task: MapTask[In, Out],
        inputs: Iterable[In],
        *,
        reduce: str,
        timeout_s: float | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Out, Any]: ...
    @overload
    def run(
        self,
        task: str,
        inputs: Iterable[Any],
        *,
        reduce: ReduceTask[Any, Any] | str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any, Any]: ...
    def run(
        self,
        task: MapTask[Any, Any] | str,
        inputs: Iterable[Any],
        *,
        reduce: ReduceTask[Any, Any] | str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any, Any]:
        """Start a job: a map task for each input, and where `reduce` is given one task that gets
        their outputs. Inputs are sent as they are read, in pages; tasks begin before all are there.

        With a `name` it may be called again after a crash, with the same inputs in the same order,
        and goes on: tasks that the server has are not made anew. Raise Conflict where a job of that
        name has another content. Each request of it is answered within `timeout_s`.
        """
        from packetboat.tasks.specs import name_of, spec_of, types_of

        name = options.get("name") or f"{name_of(task)}-{secrets.token_hex(6)}"
        spec = spec_of(task, reduce, options)
        self.start(name, spec, inputs, timeout_s=timeout_s)
        return JobHandle(self, name, *types_of(task, reduce))

    def start(
        self,
        name: str,
        spec: JobSpec,
        inputs: Iterable[Any],
        *,
        timeout_s: float | None = None,
    ) -> Job:
        """Create the job if there is none, send its inputs, and seal it. The inputs of a sealed job
        are not read again. Each request of it is answered within `timeout_s`."""
        from packetboat.tasks.uploads import Upload

        job = self.put(name, spec, timeout_s=timeout_s)
        if job.state != "open":
            return job
        count = Upload(self._sender, name, timeout_s).send(inputs)
        return self.seal(name, count, timeout_s=timeout_s)

    def handle(
        self, name: str, *, output_type: Any = Any, result_type: Any = Any
    ) -> JobHandle[Any, Any]:
        """Return the handle of a job that was started elsewhere."""
        return JobHandle(self, name, output_type, result_type)

    def get(self, name: str, *, wait_seconds: float = 0, timeout_s: float | None = None) -> Job:
        """Return the job as it stands, once it is finished or `wait_seconds` are over."""
        if timeout_s is None and wait_seconds:
            timeout_s = wait_seconds + OUTAGE_S
        return self._sender.send(calls.get_job(name, wait_seconds), timeout_s)

    def outputs(
        self, name: str, *, page_size: int = 200, timeout_s: float | None = None
    ) -> Iterator[JobOutput]:
        """Iterate over the outputs of map tasks that are over, as JSON, in the order of their
        inputs."""
        return every(
            self._sender, lambda token: calls.list_outputs(name, 0, page_size, token), timeout_s
        )

    def outputs_page(
        self,
        name: str,
        *,
        first_index: int = 0,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[JobOutput]:
        """Return one page of them, from `first_index` on."""
        call = calls.list_outputs(name, first_index, page_size, page_token)
        return self._sender.send(call, timeout_s)

    # The methods of workers.

    def claim(
        self,
        pool: str,
        kinds: Sequence[str],
        *,
        max_tasks: int = 1,
        wait_seconds: float = 0,
        lease_seconds: float = 30,
        worker: str = "",
        timeout_s: float | None = None,
    ) -> Sequence[ClaimedTask]:
        """Claim tasks of those kinds: as many as there are, or the first to come."""
        call = work.claim(pool, kinds, max_tasks, wait_seconds, lease_seconds, worker)
        return self._sender.send(call, timeout_s)

    def complete(
        self, tasks: Sequence[Completion], *, timeout_s: float | None = None
    ) -> TasksSettled:
        """Complete tasks that succeeded, or that wait for a nested job."""
        return self._sender.send(work.complete(tasks), timeout_s)

    def fail(self, tasks: Sequence[Failing], *, timeout_s: float | None = None) -> TasksSettled:
        """Say that tasks failed, perhaps to be tried again."""
        return self._sender.send(work.fail(tasks), timeout_s)

    def extend(
        self, lease_ids: Sequence[str], lease_seconds: float, *, timeout_s: float | None = None
    ) -> TasksSettled:
        """Begin leases anew; `cancelled` of the answer names those whose handlers are to end."""
        return self._sender.send(work.extend(lease_ids, lease_seconds), timeout_s)

    def release(self, lease_ids: Sequence[str], *, timeout_s: float | None = None) -> TasksSettled:
        """Let others have the tasks; the attempt does not count."""
        return self._sender.send(work.release(lease_ids), timeout_s)
