"""Jobs as those see them who want a result: made, filled, sealed, watched, ended."""

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
from edge.problem import FieldError, Problem, invalid
from edge.workshop import Workshop
from gateway.http.decoding import Query, etag, if_match, read_json
from gateway.jobs.bodies import (
    MAX_ADD_BODY_BYTES,
    MAX_NUMBER,
    MAX_WAIT_S,
    JobCreate,
    JobPut,
    JobSeal,
    spec_of,
)
from gateway.jobs.end_watch import EndWatch
from gateway.jobs.payload import Inputs, inputs_of, read
from gateway.jobs.refusals import exists, refusals
from gateway.jobs.views import WAITING_FOR_JOB, job_view, output_view, task_view
from gateway.tenancy.answers import page_size_of, respond_page
from gateway.topics.topics import precondition_failed, respond_no_content
from gateway.visible import visible_page
from metadata.errors import Conflict, NotFound
from metadata.jobs.jobs import JobLimits, JobRepository
from metadata.jobs.reading import JobReader
from metadata.jobs.steps import JobSteps
from metadata.jobs.types import (
    CANCELLED,
    DELAYED,
    FAILED,
    JOB_STATES,
    NESTED,
    RUNNING,
    SUCCEEDED,
    WAITING,
    Job,
    JobSpec,
)
from openapi.jobs import OPERATIONS

TASK_STATES = {
    **{each: each for each in (WAITING, RUNNING, DELAYED, SUCCEEDED, FAILED, CANCELLED)},
    WAITING_FOR_JOB: NESTED,
}
"""As they are called outside, and as they are here."""


class JobRoutes:
    """Who may submit a job (`publish`) may end it; deleting it is for who may `manage` it."""

    def __init__(
        self,
        jobs: JobRepository,
        steps: JobSteps,
        reader: JobReader,
        ends: EndWatch,
        limits: JobLimits,
        workshop: Workshop | None = None,
    ) -> None:
        """`workshop`: where large bodies are read."""
        self._workshop = workshop
        self._jobs = jobs
        self._steps = steps
        self._reader = reader
        self._ends = ends
        self._limits = limits

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["listJobs"], self.page),
            Route(OPERATIONS["createJob"], self.create),
            Route(OPERATIONS["getJob"], self.get),
            Route(OPERATIONS["putJob"], self.put),
            Route(OPERATIONS["deleteJob"], self.delete),
            Route(OPERATIONS["listTasks"], self.tasks),
            Route(OPERATIONS["addTasks"], self.add),
            Route(OPERATIONS["listOutputs"], self.outputs),
            Route(OPERATIONS["sealJob"], self.seal),
            Route(OPERATIONS["cancelJob"], self.cancel),
            Route(OPERATIONS["retryJob"], self.retry),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, JobCreate)
        caller_of(scope).require("publish", "job", body.name)
        spec = spec_of(body, body.name)
        _require_places(caller_of(scope), spec)
        try:
            job = await self._create(scope, spec)
        except Conflict as error:
            raise exists(spec.name) from error
        await _respond(send, 201, job)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 where it was not there; 200 where it was, made of the same."""
        version = if_match(header(scope, b"if-match"))
        spec = spec_of(await read_json(scope, receive, JobPut), path_param(scope, "job"))
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
        """Once it has ended, or at the end of the wait."""
        tenant_id, name = tenant_of(scope), path_param(scope, "job")
        wait_s = _wait_seconds(Query(scope))
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
        tenant_id, state = tenant_of(scope), _one_of(Query(scope), "state", JOB_STATES)
        page = await visible_page(
            scope,
            "job",
            lambda size, token: self._jobs.page(
                tenant_id, state=state, page_size=size, page_token=token
            ),
        )
        await respond_page(send, "jobs", [job_view(each) for each in page.items], page.next_token)

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
        await respond(send, 200, msgspec.json.encode({"total": total}))

    async def seal(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, JobSeal)
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
        state = _one_of(query, "state", TASK_STATES)
        page = await self._reader.tasks(
            tenant_of(scope),
            path_param(scope, "job"),
            state=None if state is None else TASK_STATES[state],
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        await respond_page(send, "tasks", [task_view(each) for each in page.items], page.next_token)

    async def outputs(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._reader.outputs(
            tenant_of(scope),
            path_param(scope, "job"),
            first_index=query.integer("first_index", 0, 0, MAX_NUMBER),
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        await respond_page(
            send, "outputs", [output_view(each) for each in page.items], page.next_token
        )

    async def _create(self, scope: Scope, spec: JobSpec) -> Job:
        """Conflict where the name is taken."""
        tenant_id = tenant_of(scope)
        try:
            async with refusals("job"):
                return await self._jobs.create(tenant_id, spec, self._limits)
        except Problem as problem:
            if isinstance(problem.__cause__, Conflict):
                raise problem.__cause__ from None
            raise


def _require_places(caller: Caller, spec: JobSpec) -> None:
    """Whoever gives a pool work, or a task its output, may do so there as well."""
    caller.require("publish", "pool", spec.pool)
    if spec.reduce_pool is not None:
        caller.require("publish", "pool", spec.reduce_pool)
    if spec.parent is not None:
        caller.require("publish", "job", spec.parent.job)


def _wait_seconds(query: Query) -> float:
    text = query.text("wait_seconds")
    try:
        wait_s = 0.0 if text is None else float(text)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= MAX_WAIT_S:
        errors = [FieldError("wait_seconds", f"a number from 0 to {MAX_WAIT_S}")]
        raise invalid("The query parameter wait_seconds does not fit.", errors, status=400)
    return wait_s


def _one_of(query: Query, name: str, values: object) -> str | None:
    text = query.text(name)
    assert isinstance(values, tuple | dict)
    if text is not None and text not in values:
        errors = [FieldError(name, f"one of {', '.join(values)}")]
        raise invalid(f"The query parameter {name} does not fit.", errors, status=400)
    return text


async def _respond(send: Send, status: int, job: Job) -> None:
    headers = [etag(job.version)]
    if status == 201:
        headers.append((b"location", b"/jobs/" + job.name.encode("ascii")))
    await respond(send, status, msgspec.json.encode(job_view(job)), headers=headers)
