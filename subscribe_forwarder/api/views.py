"""The views of a subscription and of a message."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import cast

import msgspec

from edge import message_id
from edge.asgi import (
    Receive,
    Scope,
    Send,
    caller_of,
    path_param,
    respond,
    tenant_of,
)
from edge.message_id import BadMessageId, MessageId
from edge.problem import not_found
from metadata.types import Topic
from openapi.push import PushStatus
from openapi.topics import AckState, AckStates
from store_nodes.errors import QueueNotFound
from subscribe_forwarder.api import status
from subscribe_forwarder.api.hubs import hub_of
from subscribe_forwarder.api.items import (
    bad_message_id,
)
from subscribe_forwarder.api.waiting import due_us, waiting
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.reading.render import time_json
from subscribe_forwarder.reading.staged import Nowhere, Where

NO_STORE = [(b"cache-control", b"no-store")]
PushStatusOf = Callable[[bytes], PushStatus | None]
_encode = msgspec.json.encode


class Views:
    def __init__(
        self, forwarder: SubscribeForwarder, fates: status.Fates, push_status: PushStatusOf
    ) -> None:
        """`push_status` returns the state of a push subscription here, for people."""
        self._forwarder = forwarder
        self._fates = fates
        self._push_status = push_status

    async def backlog(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the backlog, and the reason why nothing is delivered, if there is one."""
        hub = await hub_of(self._forwarder, scope)
        await hub.refresh()
        shown = status.backlog(hub, self._push_status(hub.subscription.uid))
        await respond(send, 200, _encode(shown), headers=NO_STORE)

    async def message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the message as stored, published or not."""
        topic, wanted, where = await self._look(scope)
        store = self._forwarder.history
        if isinstance(where, Nowhere):
            body = await waiting(store, topic, wanted, where)
        else:
            fragment = await status.message(store, topic, where)
            body = b'{"state":"published",%b}' % fragment if fragment is not None else None
        if body is None:
            raise not_found("message", path_param(scope, "id"))
        await respond(send, 200, body)

    async def ack_states(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the states of a message by subscription, as far as they are known here."""
        await tell_states(send, await self.states(scope))

    async def states(self, scope: Scope) -> dict[str, AckState]:
        """Return the states of a message by subscription of its topic that the caller may read.

        They come from committed rows and from the leases held here. A message that waits for its
        time is `scheduled` for all subscriptions.
        """
        topic, wanted, where = await self._look(scope)
        if where is Nowhere.STAGED:
            states = await self._scheduled(topic, wanted)
        elif isinstance(where, Nowhere):
            raise not_found("message", str(wanted))
        else:
            states = await status.ack_states(self._forwarder, self._fates, topic, where)
        if states is None:
            raise not_found("message", path_param(scope, "id"))
        caller = caller_of(scope)
        return {
            name: state
            for name, state in states.items()
            if await caller.allows("read", "subscription", name)
        }

    async def _scheduled(self, topic: Topic, wanted: MessageId) -> dict[str, AckState] | None:
        """Return the states of a delayed message; None where its queue is gone."""
        try:
            due = await due_us(self._forwarder.history, topic, wanted)
        except QueueNotFound:
            return None
        state = AckState("scheduled")
        if due is not None:  # as the message itself tells it, with all six digits
            state.not_before = cast(datetime, msgspec.Raw(time_json(due)))
        subscriptions = await self._forwarder.catalog.subscriptions_of(topic.tenant_id, topic.uid)
        return {subscription.name: state for subscription in subscriptions}

    async def find(self, scope: Scope) -> tuple[Topic, Where]:
        """Find the message of an id: 404 for an id of another topic or of an unpublished
        message, 400 for no id.
        """
        topic, wanted, where = await self._look(scope)
        if isinstance(where, Nowhere):
            raise not_found("message", str(wanted))
        return topic, where

    async def _look(self, scope: Scope) -> tuple[Topic, MessageId, Where | Nowhere]:
        topic = await self._forwarder.catalog.topic(tenant_of(scope), path_param(scope, "topic"))
        text = path_param(scope, "id")
        try:
            parsed = message_id.parse(text)
        except BadMessageId as error:
            raise bad_message_id(str(error)) from error
        if parsed.topic_uid != topic.uid:
            raise not_found("message", text)
        if parsed.form == message_id.FORM_OFFSET:
            return topic, parsed, Where(parsed.partition, parsed.number, parsed.lane)
        return topic, parsed, await self._forwarder.staged.locate(topic, parsed)


async def tell_states(send: Send, states: dict[str, AckState]) -> None:
    """Answer the states of a message by subscription."""
    await respond(send, 200, _encode(AckStates(states)), headers=NO_STORE)
