"""Control plane of schedules: create, change, pause, run now, look ahead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    path_param,
    respond,
    tenant_of,
)
from edge.caller import Caller
from edge.parameters import Query
from edge.problem import FieldError, Problem, invalid
from gateway.names import name_errors
from gateway.resources import Call, Resource, Shown, taken
from gateway.schedules.bodies import (
    changed,
    checked,
    coming_runs,
    message_of,
    new_spec,
    patched,
    resumed,
    stored_message,
    view,
)
from metadata.catalog import Catalog
from metadata.errors import NotFound
from metadata.ids import new_uid
from metadata.topics.schedules import Schedule, ScheduleRepository, ScheduleSpec
from metadata.types import Topic
from openapi import schedules as contract
from openapi.contract import Body
from outbox import Item, Outbox, TopicFull
from schemas.message_check import SchemaCheck
from store_nodes.record_batch import Message


class ScheduleRoutes:
    """The runs themselves are made by the scheduler (`scheduler/cron.py`)."""

    def __init__(
        self,
        schedules: ScheduleRepository,
        catalog: Catalog,
        outbox: Outbox,
        checker: SchemaCheck,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._schedules = schedules
        self._catalog = catalog
        self._outbox = outbox
        self._checker = checker
        self._wall = wall

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        schedules = Resource("schedule", table["getSchedule"], self._shown)
        return [
            schedules.creates(
                table["createSchedule"], contract.ScheduleCreate, self._create, taken("schedule")
            ),
            schedules.lists(table["listSchedules"], self._schedules.page),
            schedules.gets(table["getSchedule"], self._schedules.get),
            schedules.puts(table["putSchedule"], contract.SchedulePut, self._put, self._create),
            schedules.changes(table["changeSchedule"], contract.SchedulePatch, self._patch),
            schedules.deletes(table["deleteSchedule"], self._delete),
            Route(table["nextRuns"], self.coming),
            schedules.shows(table["pauseSchedule"], self._pause),
            schedules.shows(table["resumeSchedule"], self._resume),
            Route(table["runSchedule"], self.run),
        ]

    async def _create(self, call: Call, body: contract.SchedulePut) -> Schedule:
        if body.name not in (msgspec.UNSET, call.name):
            detail = f"is {call.name!r} in the path"
            raise invalid("The body does not fit.", [FieldError("name", detail)])
        await _require_target(call.caller, body.topic)
        topic = await self._topic(call.tenant_id, body.topic)
        message = checked(body)
        spec = new_spec(body, call.name, topic.uid, self._wall(), message)
        await self._checker_of(topic, message)
        try:
            return await self._schedules.create(call.tenant_id, spec)
        except NotFound as error:
            raise _no_topic(body.topic) from error

    async def _put(self, call: Call, body: contract.SchedulePut) -> Schedule:
        checked(body)
        return await self._change(call, lambda _: body)

    async def _patch(self, call: Call, patch: Body) -> Schedule:
        return await self._change(call, lambda schedule: patched(patch, schedule))

    async def _change(
        self, call: Call, body_for: Callable[[Schedule], contract.SchedulePut]
    ) -> Schedule:
        """Return the changed schedule; `body_for` says what the caller asks for of a schedule."""
        body = body_for(await self._schedules.get(call.tenant_id, call.name))
        await _require_target(call.caller, body.topic)
        topic = await self._topic(call.tenant_id, body.topic)
        await self._checker_of(topic, message_of(body.message))

        def change(schedule: Schedule) -> ScheduleSpec:
            return changed(body_for(schedule), schedule, topic.uid, self._wall())

        return await self._update(call, change)

    async def _delete(self, call: Call) -> None:
        await self._schedules.delete(call.tenant_id, call.name, if_version=call.if_version)

    async def _pause(self, call: Call) -> Schedule:
        return await self._update(call, lambda schedule: resumed(schedule, True, self._wall()))

    async def _resume(self, call: Call) -> Schedule:
        """Resume from the next run on; runs of the pause are not made up for."""
        found = await self._schedules.get(call.tenant_id, call.name)
        await _require_target(call.caller, found.topic_name)
        return await self._update(call, lambda schedule: resumed(schedule, False, self._wall()))

    async def _update(self, call: Call, change: Callable[[Schedule], ScheduleSpec]) -> Schedule:
        try:
            return await self._schedules.update(
                call.tenant_id, call.name, change, if_version=call.if_version
            )
        except NotFound as error:
            if error.kind == "schedule":
                raise
            raise _no_topic(error.name) from error

    async def coming(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the times of coming runs, also of a paused schedule."""
        count = Query(scope).integer(contract.COUNT)
        runs = coming_runs(await self._find(scope), self._wall(), count)
        await respond(send, 200, msgspec.json.encode(contract.NextRuns(runs)))

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Publishes its message now, besides its runs; also while it is paused."""
        schedule = await self._find(scope)
        await _require_target(caller_of(scope), schedule.topic_name)
        topic = await self._topic(schedule.tenant_id, schedule.topic_name)
        message = stored_message(schedule)
        await self._checker_of(topic, message)
        try:
            (placed,) = await self._outbox.append(topic, [Item(message, b"run" + new_uid())])
        except TopicFull as full:
            if full.kind == "tenant-full":
                raise Problem.of("tenant-full", str(full)) from full
            raise Problem.of("topic-full", str(full)) from full
        answer = contract.ScheduleRun(placed.message_id, placed.partition, placed.offset)
        await respond(send, 200, msgspec.json.encode(answer))

    async def _checker_of(self, topic: Topic, message: Message) -> None:
        """Refuse a message that the topic would refuse a publisher."""
        if topic.schema is not None:
            await self._checker.refuse(topic, message)

    async def _topic(self, tenant_id: bytes, name: str) -> Topic:
        if name_errors(name):
            raise _no_topic(name)
        try:
            return await self._catalog.topic(tenant_id, name, refresh=True)
        except NotFound as error:
            raise _no_topic(name) from error

    async def _find(self, scope: Scope) -> Schedule:
        return await self._schedules.get(tenant_of(scope), path_param(scope, "name"))

    def _shown(self, schedule: Schedule) -> Shown:
        return Shown(view(schedule, self._wall()), schedule.name, schedule.version)


async def _require_target(caller: Caller, topic: str) -> None:
    """Require that the caller may publish to the topic itself."""
    await caller.require("publish", "topic", topic)


def _no_topic(name: str) -> Problem:
    detail = f"there is no topic {name[:128]!r}"
    return invalid("The body does not fit.", [FieldError("topic", detail)])
