"""Control plane of schedules: create, change, pause, run now, look ahead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

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
from edge.parameters import Query
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.http.decoding import etag, if_match, read_json
from gateway.names import name_errors
from gateway.resources import precondition_failed, respond_no_content
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
from gateway.visible import visible_page
from metadata.catalog import Catalog
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.topics.schedules import Schedule, ScheduleRepository, ScheduleSpec
from metadata.types import Topic
from openapi import schedules as contract
from outbox import Item, Outbox, TopicFull
from store_nodes.record_batch import Message


class Checker(Protocol):
    """Holds a message to its topic's schema; raises a 422 Problem."""

    async def refuse(self, topic: Topic, message: Message) -> None: ...


class ScheduleRoutes:
    """The runs themselves are made by the scheduler (`scheduler/cron.py`)."""

    def __init__(
        self,
        schedules: ScheduleRepository,
        catalog: Catalog,
        outbox: Outbox,
        checker: Checker,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._schedules = schedules
        self._catalog = catalog
        self._outbox = outbox
        self._checker = checker
        self._wall = wall

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["createSchedule"], self.create),
            Route(contract.OPERATIONS["listSchedules"], self.page),
            Route(contract.OPERATIONS["getSchedule"], self.get),
            Route(contract.OPERATIONS["putSchedule"], self.put),
            Route(contract.OPERATIONS["changeSchedule"], self.patch),
            Route(contract.OPERATIONS["deleteSchedule"], self.delete),
            Route(contract.OPERATIONS["nextRuns"], self.coming),
            Route(contract.OPERATIONS["pauseSchedule"], self.pause),
            Route(contract.OPERATIONS["resumeSchedule"], self.resume),
            Route(contract.OPERATIONS["runSchedule"], self.run),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.ScheduleCreate)
        caller_of(scope).require("manage", "schedule", body.name)
        await self._respond(send, 201, await self._create(scope, body, body.name))

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 for a new schedule, 200 for a changed one."""
        body = await read_json(scope, receive, contract.SchedulePut)
        message = checked(body)
        name = path_param(scope, "name")
        version = if_match(header(scope, b"if-match"))
        try:
            schedule = await self._change(scope, name, lambda _: body, version)
        except Problem as problem:
            if problem.slug != "schedule-not-found":
                raise
            if version is not None:
                raise precondition_failed("schedule") from problem
            schedule = await self._create(scope, body, name, message)
            await self._respond(send, 201, schedule)
        else:
            await self._respond(send, 200, schedule)

    async def patch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200; members that the body does not name stay."""
        patch = await read_json(scope, receive, contract.SchedulePatch)
        version, name = if_match(header(scope, b"if-match")), path_param(scope, "name")
        schedule = await self._change(scope, name, lambda now: patched(patch, now), version)
        await self._respond(send, 200, schedule)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(send, 200, await self._find(scope))

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        page = await visible_page(
            scope,
            "schedule",
            lambda size, token: self._schedules.page(tenant_id, page_size=size, page_token=token),
        )
        now = self._wall()
        listing = contract.SchedulePage([view(item, now) for item in page.items], page.next_token)
        await respond(send, 200, msgspec.json.encode(listing))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, version = path_param(scope, "name"), if_match(header(scope, b"if-match"))
        try:
            await self._schedules.delete(tenant_of(scope), name, if_version=version)
        except NotFound as error:
            raise not_found("schedule", name) from error
        except Conflict as error:
            raise precondition_failed("schedule") from error
        await respond_no_content(send)

    async def coming(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the times of coming runs, also of a paused schedule."""
        count = Query(scope).integer(contract.COUNT)
        runs = coming_runs(await self._find(scope), self._wall(), count)
        await respond(send, 200, msgspec.json.encode(contract.NextRuns(runs)))

    async def pause(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(send, 200, await self._set_paused(scope, True))

    async def resume(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Resume from the next run on; runs of the pause are not made up for."""
        _require_target(caller_of(scope), (await self._find(scope)).topic_name)
        await self._respond(send, 200, await self._set_paused(scope, False))

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Publishes its message now, besides its runs; also while it is paused."""
        schedule = await self._find(scope)
        _require_target(caller_of(scope), schedule.topic_name)
        topic = await self._topic(schedule.tenant_id, schedule.topic_name)
        message = stored_message(schedule)
        await self._checker_of(topic, message)
        try:
            (placed,) = await self._outbox.append(topic, [Item(message, b"run" + new_uid())])
        except TopicFull as full:
            if full.kind == "tenant-full":
                raise Problem(507, "tenant-full", "Storage is full", str(full)) from full
            raise Problem(507, "topic-full", "The topic is full", str(full)) from full
        answer = contract.ScheduleRun(placed.message_id, placed.partition, placed.offset)
        await respond(send, 200, msgspec.json.encode(answer))

    async def _create(
        self, scope: Scope, body: contract.SchedulePut, name: str, message: Message | None = None
    ) -> Schedule:
        """`message` is that of a body that has been checked already."""
        if body.name not in (msgspec.UNSET, name):
            detail = f"is {name!r} in the path"
            raise invalid("The body does not fit.", [FieldError("name", detail)])
        _require_target(caller_of(scope), body.topic)
        tenant_id = tenant_of(scope)
        topic = await self._topic(tenant_id, body.topic)
        message = checked(body) if message is None else message
        spec = new_spec(body, name, topic.uid, self._wall(), message)
        await self._checker_of(topic, message)
        try:
            return await self._schedules.create(tenant_id, spec)
        except Conflict as error:
            detail = f"There is a schedule {name!r} already."
            raise Problem(409, "schedule-exists", "Schedule exists", detail) from error
        except NotFound as error:
            raise _no_topic(body.topic) from error

    async def _change(
        self,
        scope: Scope,
        name: str,
        body_for: Callable[[Schedule], contract.SchedulePut],
        version: int | None,
    ) -> Schedule:
        """`body_for` says what is asked for of the schedule as it is."""
        tenant_id = tenant_of(scope)
        before = await self._named(tenant_id, name)
        body = body_for(before)
        _require_target(caller_of(scope), body.topic)
        topic = await self._topic(tenant_id, body.topic)
        await self._checker_of(topic, message_of(body.message))
        return await self._update(
            tenant_id,
            name,
            lambda schedule: changed(body_for(schedule), schedule, topic.uid, self._wall()),
            version,
        )

    async def _set_paused(self, scope: Scope, paused: bool) -> Schedule:
        return await self._update(
            tenant_of(scope),
            path_param(scope, "name"),
            lambda schedule: resumed(schedule, paused, self._wall()),
            if_match(header(scope, b"if-match")),
        )

    async def _update(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[Schedule], ScheduleSpec],
        version: int | None,
    ) -> Schedule:
        try:
            return await self._schedules.update(tenant_id, name, change, if_version=version)
        except Conflict as error:
            raise precondition_failed("schedule") from error
        except NotFound as error:
            if error.kind == "schedule":
                raise not_found("schedule", name) from error
            raise _no_topic(error.name) from error

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
        return await self._named(tenant_of(scope), path_param(scope, "name"))

    async def _named(self, tenant_id: bytes, name: str) -> Schedule:
        try:
            return await self._schedules.get(tenant_id, name)
        except NotFound as error:
            raise not_found("schedule", name) from error

    async def _respond(self, send: Send, status: int, schedule: Schedule) -> None:
        headers = [etag(schedule.version)]
        if status == 201:
            headers.append((b"location", b"/schedules/" + schedule.name.encode("ascii")))
        body = msgspec.json.encode(view(schedule, self._wall()))
        await respond(send, status, body, headers=headers)


def _require_target(caller: Caller, topic: str) -> None:
    """Require that the caller may publish to the topic itself."""
    caller.require("publish", "topic", topic)


def _no_topic(name: str) -> Problem:
    detail = f"there is no topic {name[:128]!r}"
    return invalid("The body does not fit.", [FieldError("topic", detail)])
