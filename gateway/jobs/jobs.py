"""Jobs as their owners use them: they make, fill, seal, watch and end them."""

from __future__ import annotations

import asyncio

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    header,
    path_param,
    respond,
    tenant_of,
)
from edge.caller import Caller
from edge.departure import disconnected, ended_by
from edge.parameters import Query
from edge.problem import Problem
from edge.workshop import Workshop
from gateway.http.decoding import etag, if_match, read_json
from gateway.jobs.bodies import (
    MAX_ADD_BODY_BYTES,
    spec_of,
)
from gateway.jobs.end_watch import EndWatch
from gateway.jobs.payload import Inputs, inputs_of, read
from gateway.jobs.refusals import exists, refusals
from gateway.jobs.views import TASK_STATES, job_view, output_view, task_view
from gateway.resources import precondition_failed, respond_no_content
from gateway.tenancy.answers import page_size_of, respond_listing
from gateway.visible import visible_page
from metadata.errors import Conflict, NotFound
from metadata.jobs.jobs import JobLimits, JobRepository
from metadata.jobs.reading import JobReader
from metadata.jobs.steps import JobSteps
from metadata.jobs.types import Job, JobSpec
from openapi import jobs as contract

_STORED_STATES: dict[str, str] = {shown: stored for stored, shown in TASK_STATES.items()}


class JobRoutes:
    """A caller that may submit a job (`publish`) may end it; to delete it needs `manage`."""

    def __init__(
        self,
        jobs: JobRepository,
        steps: JobSteps,
        reader: JobReader,
        ends: EndWatch,
        limits: JobLimits,
        workshop: Workshop | None = None,
    ) -> None:
        """Make the routes; the `workshop` reads large bodies."""
        self._workshop = workshop
        self._jobs = jobs
        self._steps = steps
        self._reader = reader
        self._ends = ends
        self._limits = limits

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["listJobs"], self.page),
            Route(contract.OPERATIONS["createJob"], self.create),
            Route(contract.OPERATIONS["getJob"], self.get),
            Route(contract.OPERATIONS["putJob"], self.put),
            Route(contract.OPERATIONS["deleteJob"], self.delete),
            Route(contract.OPERATIONS["listTasks"], self.tasks),
            Route(contract.OPERATIONS["addTasks"], self.add),
            Route(contract.OPERATIONS["listOutputs"], self.outputs),
            Route(contract.OPERATIONS["sealJob"], self.seal),
            Route(contract.OPERATIONS["cancelJob"], self.cancel),
            Route(contract.OPERATIONS["retryJob"], self.retry),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.JobCreate)
        caller_of(scope).require("publish", "job", body.name)
        spec = spec_of(body, body.name)
        _require_places(caller_of(scope), spec)
        try:
            job = await self._create(scope, spec)
        except Conflict as error:
            raise exists(spec.name) from error
        await _respond(send, 201, job)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 if the job is new, 200 if it exists and has the same content."""
        version = if_match(header(scope, b"if-match"))
        spec = spec_of(await read_json(scope, receive, contract.JobPut), path_param(scope, "job"))
        _require_places(caller_of(scope), spec)
        while True:
            try:
                job = await self._jobs.get(tenant_of(scope), spec.name)
            except NotFound:
                if version is not None:
                    raise precondition_failed("job") from None
            else:
                break
            try:
                return await _respond(send, 201, await self._create(scope, spec))
            except Conflict:
                continue  # somebody else made it at that moment
        if version is not None and version != job.version:
            raise precondition_failed("job")
        if job.spec != spec:
            raise exists(spec.name)
        return await _respond(send, 200, job)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer once the job has ended, or at the end of the wait."""
        tenant_id, name = tenant_of(scope), path_param(scope, "job")
        wait_s = Query(scope).number(contract.WAIT_FOR_END)
        if not wait_s:
            return await _respond(send, 200, await self._jobs.get(tenant_id, name))
        getting = asyncio.ensure_future(self._ends.get(tenant_id, name, wait_s))
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait((getting, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ended_by(gone)
            job = getting.result()
        finally:
            getting.cancel()
            gone.cancel()
            await asyncio.gather(getting, gone, return_exceptions=True)
        return await _respond(send, 200, job)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id, state = tenant_of(scope), Query(scope).choice(contract.JOB_STATE)
        page = await visible_page(
            scope,
            "job",
            lambda size, token: self._jobs.page(
                tenant_id, state=state, page_size=size, page_token=token
            ),
        )
        listing = contract.JobPage([job_view(each) for each in page.items], page.next_token)
        await respond_listing(send, listing)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        force, version = Query(scope).flag("force"), if_match(header(scope, b"if-match"))
        name = path_param(scope, "job")
        async with refusals("job"):
            await self._steps.delete(tenant_of(scope), name, force=force, if_version=version)
        await respond_no_content(send)

    async def add(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = await read(self._workshop, scope, receive, MAX_ADD_BODY_BYTES, Inputs, inputs_of)
        name, first = path_param(scope, "job"), given.first_index
        async with refusals("job"):
            total = await self._steps.add(tenant_of(scope), name, first, given.inputs, self._limits)
        await respond(send, 200, msgspec.json.encode(contract.TasksAdded(total)))

    async def seal(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.JobSeal)
        async with refusals("job"):
            job = await self._steps.seal(tenant_of(scope), path_param(scope, "job"), body.tasks)
        await _respond(send, 200, job)

    async def cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _respond(
            send, 200, await self._steps.cancel(tenant_of(scope), path_param(scope, "job"))
        )

    async def retry(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with refusals("job"):
            job = await self._steps.retry(tenant_of(scope), path_param(scope, "job"))
        await _respond(send, 200, job)

    async def tasks(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        state = query.choice(contract.TASK_STATE)
        page = await self._reader.tasks(
            tenant_of(scope),
            path_param(scope, "job"),
            state=None if state is None else _STORED_STATES[state],
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = contract.TaskPage([task_view(each) for each in page.items], page.next_token)
        await respond_listing(send, listing)

    async def outputs(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._reader.outputs(
            tenant_of(scope),
            path_param(scope, "job"),
            first_index=query.integer(contract.FIRST_INDEX),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = contract.OutputPage([output_view(each) for each in page.items], page.next_token)
        await respond_listing(send, listing)

    async def _create(self, scope: Scope, spec: JobSpec) -> Job:
        """Create a job; raise Conflict if the name is taken."""
        tenant_id = tenant_of(scope)
        try:
            async with refusals("job"):
                return await self._jobs.create(tenant_id, spec, self._limits)
        except Problem as problem:
            if isinstance(problem.__cause__, Conflict):
                raise problem.__cause__ from None
            raise


def _require_places(caller: Caller, spec: JobSpec) -> None:
    """Require `publish` on the pools and the parent of a job, which get work or output by it."""
    caller.require("publish", "pool", spec.pool)
    if spec.reduce_pool is not None:
        caller.require("publish", "pool", spec.reduce_pool)
    if spec.parent is not None:
        caller.require("publish", "job", spec.parent.job)


async def _respond(send: Send, status: int, job: Job) -> None:
    headers = [etag(job.version)]
    if status == 201:
        headers.append((b"location", b"/jobs/" + job.name.encode("ascii")))
    await respond(send, status, msgspec.json.encode(job_view(job)), headers=headers)
