# Generated from openapi/: `make generate`. Do not edit.
"""Jobs: start and follow them, and run their tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import jobs as calls
from packetboat.models import Page
from packetboat.models.jobs import Job, JobSpec, JobState, JobTask, TaskState


class AsyncJobsOperations:
    """Jobs: start and follow them, and run their tasks."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(self, name: str, spec: JobSpec, *, timeout_s: float | None = None) -> Job:
        """Create the job. Raise Conflict where the name is taken."""
        return await self._sender.send(calls.create_job(name, spec), timeout_s)

    async def put(self, name: str, spec: JobSpec, *, timeout_s: float | None = None) -> Job:
        """Create the job, or find the one with the same content. Raise Conflict where a job of this
        name has another content."""
        return await self._sender.send(calls.put_job(name, spec), timeout_s)

    def list(
        self, *, state: JobState | None = None, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Job]:
        """Iterate over all of them, page by page."""
        return every(
            self._sender, lambda token: calls.list_jobs(state, page_size, token), timeout_s
        )

    async def page(
        self,
        *,
        state: JobState | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[Job]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_jobs(state, page_size, page_token), timeout_s)

    async def add_tasks(
        self,
        name: str,
        first_index: int,
        inputs: Sequence[msgspec.Raw],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Add a task for each input, 1,000 at most, from the number `first_index` on. An input is
        JSON."""
        await self._sender.send(calls.add_tasks(name, first_index, inputs), timeout_s)

    async def seal(self, name: str, tasks: int, *, timeout_s: float | None = None) -> Job:
        """Say that the job has all its tasks, whose number is `tasks`."""
        return await self._sender.send(calls.seal_job(name, tasks), timeout_s)

    async def cancel(self, name: str, *, timeout_s: float | None = None) -> Job:
        """Begin no more of its tasks, and tell those that run. A finished job stays as it is."""
        return await self._sender.send(calls.cancel_job(name), timeout_s)

    async def retry(self, name: str, *, timeout_s: float | None = None) -> Job:
        """Run the tasks of a failed or cancelled job again that did not succeed."""
        return await self._sender.send(calls.retry_job(name), timeout_s)

    async def delete(
        self, name: str, *, force: bool = False, timeout_s: float | None = None
    ) -> None:
        """Delete the job; with `force` also one that is not finished."""
        await self._sender.send(calls.delete_job(name, force), timeout_s)

    def tasks(
        self,
        name: str,
        *,
        state: TaskState | None = None,
        page_size: int = 100,
        timeout_s: float | None = None,
    ) -> AsyncIterator[JobTask]:
        """Iterate over the tasks of a job, in the order of their inputs, and then over its reduce
        task, if there is one."""
        return every(
            self._sender, lambda token: calls.list_tasks(name, state, page_size, token), timeout_s
        )

    async def tasks_page(
        self,
        name: str,
        *,
        state: TaskState | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[JobTask]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(
            calls.list_tasks(name, state, page_size, page_token), timeout_s
        )
