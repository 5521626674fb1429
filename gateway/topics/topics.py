"""Control plane of topics: create, get, list, change, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from edge.problem import FieldError, invalid, not_found
from gateway.http.decoding import etag, if_match, read_json
from gateway.names import name_errors
from gateway.resources import precondition_failed, respond_no_content
from gateway.topics.bodies import changed, check, new_spec, patched, to_create, view
from gateway.topics.holds import Hold, Holds, held
from gateway.topics.lifecycle import TopicLifecycle
from gateway.visible import visible_page
from metadata.errors import Conflict, NotFound
from metadata.topics.topics import TopicRepository
from metadata.types import Topic, TopicSpec, TopicState
from openapi import topics as contract


class TopicRoutes:
    """Handle the operations on topics; TopicLifecycle makes changes in Postgres and the store."""

    def __init__(self, topics: TopicRepository, lifecycle: TopicLifecycle, holds: Holds) -> None:
        self._topics = topics
        self._lifecycle = lifecycle
        self._holds = holds

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["createTopic"], self.create),
            Route(contract.OPERATIONS["listTopics"], self.page),
            Route(contract.OPERATIONS["getTopic"], self.get),
            Route(contract.OPERATIONS["putTopic"], self.put),
            Route(contract.OPERATIONS["patchTopic"], self.patch),
            Route(contract.OPERATIONS["deleteTopic"], self.delete),
            Route(contract.OPERATIONS["listTopicHolds"], self.holds),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.TopicCreate)
        caller_of(scope).require("manage", "topic", body.name)
        _check_schema(caller_of(scope), body.schema)
        await _respond(send, 201, await self._create(tenant_of(scope), body))

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 for a new topic, 200 for one that is now as the body says."""
        body = await read_json(scope, receive, contract.TopicPut)
        check(body)
        _check_schema(caller_of(scope), body.schema)
        tenant_id, name = tenant_of(scope), path_param(scope, "topic")
        errors = name_errors(name, "topic")
        if errors:
            raise invalid("The name does not fit.", errors)
        version = if_match(header(scope, b"if-match"))
        try:
            topic = await self._change(tenant_id, name, lambda topic: changed(body, topic), version)
        except NotFound as error:
            if error.kind != "topic":
                raise
            if version is not None:
                raise precondition_failed("topic") from error
            topic = await self._create(tenant_id, to_create(body, name))
            await _respond(send, 201, topic)
        else:
            await _respond(send, 200, topic)

    async def patch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200; members that the body does not name stay."""
        patch = await read_json(scope, receive, contract.TopicPatch)
        if isinstance(schema := getattr(patch, "schema", None), str):
            _check_schema(caller_of(scope), schema)
        topic = await self._change(
            tenant_of(scope),
            path_param(scope, "topic"),
            lambda topic: changed(patched(patch, topic), topic),
            if_match(header(scope, b"if-match")),
        )
        await _respond(send, 200, topic)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        topic = await self._active(scope)
        await respond(send, 200, msgspec.json.encode(view(topic)), headers=[etag(topic.version)])

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        page = await visible_page(
            scope,
            "topic",
            lambda size, token: self._topics.page(tenant_id, page_size=size, page_token=token),
        )
        listing = contract.TopicPage([view(each) for each in page.items], page.next_token)
        await respond(send, 200, msgspec.json.encode(listing))

    async def holds(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the losses for which a delete without `force=true` is refused."""
        await respond_holds(send, await self._holds.of_topic(await self._active(scope)))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """409 while something would be lost (holds.py), unless `force=true`. The count
        lacks messages that are published after it."""
        tenant_id, name = tenant_of(scope), path_param(scope, "topic")
        version = if_match(header(scope, b"if-match"))
        if not Query(scope).flag("force"):
            await self._refuse_held(tenant_id, name)
        try:
            await self._lifecycle.delete(tenant_id, name, version)
        except Conflict as error:
            raise precondition_failed("topic") from error
        await respond_no_content(send)

    async def _create(self, tenant_id: bytes, body: contract.TopicCreate) -> Topic:
        spec = new_spec(body)
        try:
            return await self._lifecycle.create(tenant_id, spec, body.partitions)
        except NotFound as error:
            raise _of_schema(error, spec) from error

    async def _change(
        self,
        tenant_id: bytes,
        name: str,
        changed_of: Callable[[Topic], TopicSpec],
        version: int | None,
    ) -> Topic:
        """Return the changed topic. Raise NotFound where there is no active one."""
        wanted: list[TopicSpec] = []

        def change(topic: Topic) -> TopicSpec:
            wanted[:] = [changed_of(topic)]
            return wanted[0]

        try:
            return await self._topics.update(tenant_id, name, change, if_version=version)
        except Conflict as error:
            raise precondition_failed("topic") from error
        except NotFound as error:
            raise (_of_schema(error, wanted[0]) if wanted else error) from error

    async def _active(self, scope: Scope) -> Topic:
        name = path_param(scope, "topic")
        topic = await self._topics.get(tenant_of(scope), name)
        if topic.state is not TopicState.ACTIVE:
            raise not_found("topic", name)
        return topic

    async def _refuse_held(self, tenant_id: bytes, name: str) -> None:
        topic = await self._topics.get(tenant_id, name)
        if topic.state is not TopicState.ACTIVE:
            return
        if holds := await self._holds.of_topic(topic):
            raise held("topic", name, holds)


async def respond_holds(send: Send, holds: Sequence[Hold]) -> None:
    body = {"holds": [hold.members() for hold in holds]}
    await respond(send, 200, msgspec.json.encode(body), headers=[(b"cache-control", b"no-store")])


async def _respond(send: Send, status: int, topic: Topic) -> None:
    headers = [etag(topic.version)]
    if status == 201:
        headers.append((b"location", b"/topics/" + topic.name.encode("ascii")))
    await respond(send, status, msgspec.json.encode(view(topic)), headers=headers)


def _check_schema(caller: Caller, name: str | None) -> None:
    """Require that the caller may read the schema, which the refusal of a message tells of."""
    if name is not None:
        caller.require("read", "schema", name)


def _of_schema(error: NotFound, spec: TopicSpec) -> Exception:
    """Return a 422 Problem where the schema is the one that is not there."""
    if error.kind != "schema":
        return error
    detail = f"there is no schema {spec.schema!r}"
    return invalid("The body does not fit.", [FieldError("schema", detail)])
