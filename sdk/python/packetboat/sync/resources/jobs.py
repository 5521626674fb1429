# Generated from aio/resources/jobs.py: `make generate`. Do not edit.
"""Jobs: start them, follow them, and what workers do with their tasks."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import msgspec

from packetboat.calls import jobs as calls
from packetboat.models.jobs import (
    ClaimedTask,
    Completion,
    Failing,
    Job,
    JobOutput,
    JobSpec,
    JobState,
    JobTask,
    TaskState,
)
from packetboat.models.page import Page
from packetboat.models.task_results import TasksSettled
from packetboat.sync.resources.job_handles import JobHandle
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender

if TYPE_CHECKING:
    from packetboat.tasks.definitions import MapTask, ReduceTask
    from packetboat.tasks.specs import JobOptions

In = TypeVar("In")
Out = TypeVar("Out")
Result = TypeVar("Result")
OUTAGE_S = 60.0
"""A wait for a job goes on through so much."""


class Jobs:
    """Jobs: start them, follow them, and what workers do with their tasks."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

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
        """Starts a job: a map task for each input, and where `reduce` is given one task that gets
        their outputs. Inputs are sent as they are read, in pages; tasks begin before all are there.

        With a `name` it may be called again after a crash, with the same inputs in the same order,
        and goes on: what the server has is not made anew. Raises Conflict where a job of that name
        is made of something else. Each request of it is answered within `timeout_s`.
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
        """Makes the job if there is none, sends its inputs, and seals it. Of one that is sealed
        the inputs are not read again. Each request of it is answered within `timeout_s`."""
        from packetboat.tasks.uploads import Upload

        job = self.put(name, spec, timeout_s=timeout_s)
        if job.state != "open":
            return job
        count = Upload(self._sender, name, timeout_s).send(inputs)
        return self.seal(name, count, timeout_s=timeout_s)

    def handle(
        self, name: str, *, output_type: Any = Any, result_type: Any = Any
    ) -> JobHandle[Any, Any]:
        """Of a job that was started elsewhere."""
        return JobHandle(self, name, output_type, result_type)

    def create(self, name: str, spec: JobSpec, *, timeout_s: float | None = None) -> Job:
        """Raises Conflict where there is one of that name."""
        return self._sender.send(calls.create_job(name, spec), timeout_s)

    def put(self, name: str, spec: JobSpec, *, timeout_s: float | None = None) -> Job:
        """Makes it, or finds the one that was made of the same. Raises Conflict where a job of
        that name is made of something else."""
        return self._sender.send(calls.put_job(name, spec), timeout_s)

    def get(self, name: str, *, wait_seconds: float = 0, timeout_s: float | None = None) -> Job:
        """As it stands; with `wait_seconds` once it is finished, or after that long."""
        if timeout_s is None and wait_seconds:
            timeout_s = wait_seconds + OUTAGE_S
        return self._sender.send(calls.get_job(name, wait_seconds), timeout_s)

    def list(
        self, *, state: JobState | None = None, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[Job]:
        """All of them, page by page."""
        return every(
            self._sender, lambda token: calls.list_jobs(state, page_size, token), timeout_s
        )

    def page(
        self,
        *,
        state: JobState | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[Job]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_jobs(state, page_size, page_token), timeout_s)

    def add_tasks(
        self,
        name: str,
        first_index: int,
        inputs: Sequence[msgspec.Raw],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Inputs as JSON, 1,000 at most, of the tasks from `first_index` on."""
        self._sender.send(calls.add_tasks(name, first_index, inputs), timeout_s)

    def seal(self, name: str, tasks: int, *, timeout_s: float | None = None) -> Job:
        """That were all tasks."""
        return self._sender.send(calls.seal_job(name, tasks), timeout_s)

    def cancel(self, name: str, *, timeout_s: float | None = None) -> Job:
        """Nothing more of it begins; handlers that run are told. A finished job stays as it is."""
        return self._sender.send(calls.cancel_job(name), timeout_s)

    def retry(self, name: str, *, timeout_s: float | None = None) -> Job:
        """Of a job that failed or was cancelled: what did not succeed is done again."""
        return self._sender.send(calls.retry_job(name), timeout_s)

    def delete(self, name: str, *, force: bool = False, timeout_s: float | None = None) -> None:
        """`force`: also one that is not finished."""
        self._sender.send(calls.delete_job(name, force), timeout_s)

    def tasks(
        self,
        name: str,
        *,
        state: TaskState | None = None,
        page_size: int = 100,
        timeout_s: float | None = None,
    ) -> Iterator[JobTask]:
        """Of one job, in the order of their inputs; the reduce task, if there is one, too."""
        return every(
            self._sender, lambda token: calls.list_tasks(name, state, page_size, token), timeout_s
        )

    def outputs(
        self, name: str, *, page_size: int = 200, timeout_s: float | None = None
    ) -> Iterator[JobOutput]:
        """Of map tasks that are over, as JSON, in the order of their inputs."""
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
        """One page of them, from `first_index` on."""
        call = calls.list_outputs(name, first_index, page_size, page_token)
        return self._sender.send(call, timeout_s)

    # What workers do.

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
        """Leases tasks of those kinds: as many as there are, or the first to come."""
        call = calls.claim(pool, kinds, max_tasks, wait_seconds, lease_seconds, worker)
        return self._sender.send(call, timeout_s)

    def complete(
        self, tasks: Sequence[Completion], *, timeout_s: float | None = None
    ) -> TasksSettled:
        """They succeeded, or wait for a nested job."""
        return self._sender.send(calls.complete(tasks), timeout_s)

    def fail(self, tasks: Sequence[Failing], *, timeout_s: float | None = None) -> TasksSettled:
        """They failed, perhaps to be tried again."""
        return self._sender.send(calls.fail(tasks), timeout_s)

    def extend(
        self, lease_ids: Sequence[str], lease_seconds: float, *, timeout_s: float | None = None
    ) -> TasksSettled:
        """Their leases begin anew; `cancelled` are those whose handlers are to end."""
        return self._sender.send(calls.extend(lease_ids, lease_seconds), timeout_s)

    def release(self, lease_ids: Sequence[str], *, timeout_s: float | None = None) -> TasksSettled:
        """Others may have them; the attempt does not count."""
        return self._sender.send(calls.release(lease_ids), timeout_s)
