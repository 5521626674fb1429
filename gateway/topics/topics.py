"""Control plane of topics: create, get, list, change, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, respond, tenant_of
from edge.caller import Caller
from edge.problem import FieldError, invalid, not_found
from gateway.names import name_errors
from gateway.resources import Call, Resource, Shown, taken
from gateway.topics.bodies import changed, check, new_spec, patched, to_create, view
from gateway.topics.holds import Holds, held
from gateway.topics.lifecycle import TopicLifecycle
from metadata.errors import NotFound
from metadata.topics.topics import TopicRepository
from metadata.types import Topic, TopicSpec, TopicState
from openapi import topics as contract
from openapi.common import Hold, HoldList
from openapi.contract import Body


class TopicRoutes:
    """Handle the operations on topics; TopicLifecycle makes changes in Postgres and the store."""

    def __init__(self, topics: TopicRepository, lifecycle: TopicLifecycle, holds: Holds) -> None:
        self._topics = topics
        self._lifecycle = lifecycle
        self._holds = holds

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        topics = Resource("topic", table["getTopic"], _shown)
        return [
            topics.creates(
                table["createTopic"], contract.TopicCreate, self._create, taken("topic")
            ),
            topics.lists(table["listTopics"], self._topics.page),
            topics.gets(table["getTopic"], self._active),
            topics.puts(table["putTopic"], contract.TopicPut, self._put, self._create_put),
            topics.changes(table["patchTopic"], contract.TopicPatch, self._patch),
            topics.deletes(table["deleteTopic"], self._delete),
            Route(table["listTopicHolds"], self.holds),
        ]

    async def _create(self, call: Call, body: contract.TopicCreate) -> Topic:
        await _check_schema(call.caller, body.schema)
        spec = new_spec(body)
        try:
            return await self._lifecycle.create(call.tenant_id, spec, body.partitions)
        except NotFound as error:
            raise _of_schema(error, spec) from error

    async def _put(self, call: Call, body: contract.TopicPut) -> Topic:
        check(body)
        await _check_schema(call.caller, body.schema)
        if errors := name_errors(call.name, "topic"):
            raise invalid("The name does not fit.", errors)
        return await self._change(call, lambda topic: changed(body, topic))

    async def _create_put(self, call: Call, body: contract.TopicPut) -> Topic:
        return await self._create(call, to_create(body, call.name))

    async def _patch(self, call: Call, patch: Body) -> Topic:
        if isinstance(schema := getattr(patch, "schema", None), str):
            await _check_schema(call.caller, schema)
        return await self._change(call, lambda topic: changed(patched(patch, topic), topic))

    async def _delete(self, call: Call) -> None:
        """Raise a 409 Problem while something would be lost (holds.py), unless `force=true`. The
        count lacks messages that are published after it."""
        if not call.force:
            await self._refuse_held(call.tenant_id, call.name)
        await self._lifecycle.delete(call.tenant_id, call.name, call.if_version)

    async def holds(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the losses for which a delete without `force=true` is refused."""
        topic = await self._active(tenant_of(scope), path_param(scope, "topic"))
        await respond_holds(send, await self._holds.of_topic(topic))

    async def _change(self, call: Call, changed_of: Callable[[Topic], TopicSpec]) -> Topic:
        """Return the changed topic. Raise NotFound where there is no active one."""
        wanted: list[TopicSpec] = []

        def change(topic: Topic) -> TopicSpec:
            wanted[:] = [changed_of(topic)]
            return wanted[0]

        try:
            return await self._topics.update(
                call.tenant_id, call.name, change, if_version=call.if_version
            )
        except NotFound as error:
            raise (_of_schema(error, wanted[0]) if wanted else error) from error

    async def _active(self, tenant_id: bytes, name: str) -> Topic:
        topic = await self._topics.get(tenant_id, name)
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
    body = msgspec.json.encode(HoldList(list(holds)))
    await respond(send, 200, body, headers=[(b"cache-control", b"no-store")])


def _shown(topic: Topic) -> Shown:
    return Shown(view(topic), topic.name, topic.version)


async def _check_schema(caller: Caller, name: str | None) -> None:
    """Require that the caller may read the schema, which the refusal of a message tells of."""
    if name is not None:
        await caller.require("read", "schema", name)


def _of_schema(error: NotFound, spec: TopicSpec) -> Exception:
    """Return a 422 Problem where the schema is the one that is not there."""
    if error.kind != "schema":
        return error
    detail = f"there is no schema {spec.schema!r}"
    return invalid("The body does not fit.", [FieldError("schema", detail)])
