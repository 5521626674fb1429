"""Jobs as their owners use them: they make, fill, seal, watch and end them."""

from __future__ import annotations

from functools import partial

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    path_param,
    respond,
    tenant_of,
)
from edge.caller import Caller
from edge.departure import unless_gone
from edge.parameters import Query
from edge.process_pool import ProcessPool
from gateway.jobs.bodies import (
    MAX_ADD_BODY_BYTES,
    spec_of,
)
from gateway.jobs.end_watch import EndWatch
from gateway.jobs.payload import Inputs, inputs_of, read
from gateway.jobs.refusals import exists, refusals
from gateway.jobs.views import TASK_STATES, job_view, output_view, task_view
from gateway.resources import Call, ReadPage, Resource, Shown, precondition_failed
from gateway.tenancy.answers import page_size_of, respond_listing
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
        process_pool: ProcessPool | None = None,
    ) -> None:
        """Make the routes; the process pool reads large bodies."""
        self._process_pool = process_pool
        self._jobs = jobs
        self._steps = steps
        self._reader = reader
        self._ends = ends
        self._limits = limits

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        jobs = Resource("job", table["getJob"], _shown)
        return [
            jobs.lists_selected(table["listJobs"], self._select),
            jobs.creates(table["createJob"], contract.JobCreate, self._create, exists),
            jobs.shows(table["getJob"], self._get),
            jobs.puts(table["putJob"], contract.JobPut, self._same, self._create),
            jobs.deletes(table["deleteJob"], self._delete),
            Route(table["listTasks"], self.tasks),
            Route(table["addTasks"], self.add),
            Route(table["listOutputs"], self.outputs),
            jobs.changes(table["sealJob"], contract.JobSeal, self._seal),
            jobs.shows(table["cancelJob"], self._cancel),
            jobs.shows(table["retryJob"], self._retry),
        ]

    async def _create(self, call: Call, body: contract.JobCreate | contract.JobPut) -> Job:
        spec = spec_of(body, call.name)
        await _require_places(call.caller, spec)
        async with refusals():
            return await self._jobs.create(call.tenant_id, spec, self._limits)

    async def _same(self, call: Call, body: contract.JobPut) -> Job:
        """Return the job if it was made of the same content: a job does not change."""
        spec = spec_of(body, call.name)
        await _require_places(call.caller, spec)
        job = await self._jobs.get(call.tenant_id, call.name)
        if call.if_version not in (None, job.version):
            raise precondition_failed("job")
        if job.spec != spec:
            raise exists(call.name)
        return job

    async def _get(self, call: Call) -> Job:
        """Return the job once it has ended, or at the end of the wait."""
        wait_s = call.query.number(contract.WAIT_FOR_END)
        if not wait_s:
            return await self._jobs.get(call.tenant_id, call.name)
        getting = self._ends.get(call.tenant_id, call.name, wait_s)
        return await unless_gone(call.receive, getting)

    async def _select(self, call: Call) -> ReadPage[Job]:
        return partial(self._jobs.page, state=call.query.choice(contract.JOB_STATE))

    async def _delete(self, call: Call) -> None:
        async with refusals():
            await self._steps.delete(
                call.tenant_id, call.name, force=call.force, if_version=call.if_version
            )

    async def _seal(self, call: Call, body: contract.JobSeal) -> Job:
        async with refusals():
            return await self._steps.seal(call.tenant_id, call.name, body.tasks)

    async def _cancel(self, call: Call) -> Job:
        return await self._steps.cancel(call.tenant_id, call.name)

    async def _retry(self, call: Call) -> Job:
        async with refusals():
            return await self._steps.retry(call.tenant_id, call.name)

    async def add(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = await read(
            self._process_pool, scope, receive, MAX_ADD_BODY_BYTES, Inputs, inputs_of
        )
        name, first = path_param(scope, "job"), given.first_index
        async with refusals():
            total = await self._steps.add(tenant_of(scope), name, first, given.inputs, self._limits)
        await respond(send, 200, msgspec.json.encode(contract.TasksAdded(total)))

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


async def _require_places(caller: Caller, spec: JobSpec) -> None:
    """Require `publish` on the pools and the parent of a job, which get work or output by it."""
    await caller.require("publish", "pool", spec.pool)
    if spec.reduce_pool is not None:
        await caller.require("publish", "pool", spec.reduce_pool)
    if spec.parent is not None:
        await caller.require("publish", "job", spec.parent.job)


def _shown(job: Job) -> Shown:
    return Shown(job_view(job), job.name, job.version)
