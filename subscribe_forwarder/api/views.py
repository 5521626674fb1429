"""The views of a subscription and of a message, wherever its partitions are owned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
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
from edge.problem import Problem, not_found
from metadata.delivery.ack_history import AckHistoryRepository
from metadata.types import Subscription, Topic
from openapi import subscriptions, topics
from openapi.flow import Throttle
from openapi.push import PushStatus
from openapi.subscriptions import Backlog
from openapi.topics import AckState, AckStates
from store_nodes.errors import QueueNotFound
from subscribe_forwarder.api import status
from subscribe_forwarder.api.hubs import hub_of
from subscribe_forwarder.api.items import bad_message_id
from subscribe_forwarder.api.waiting import due_us, waiting
from subscribe_forwarder.delivery.reading.render import time_json
from subscribe_forwarder.delivery.reading.staged import Nowhere, Where
from subscribe_forwarder.fleet.proxy.parts import NO_STORE, PATIENCE_S, Parts
from subscribe_forwarder.fleet.proxy.relay import Captured, part_of, receiving
from subscribe_forwarder.fleet.proxy.routing import HERE, Routing
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import PeerGone
from subscribe_forwarder.push.status import merged as merged_push

BACKLOG = subscriptions.OPERATIONS["getBacklog"].route
ACK_STATES = topics.OPERATIONS["getMessageAck"].route
PushStatusOf = Callable[[bytes], PushStatus | None]
_encode = msgspec.json.encode


class Views:
    def __init__(
        self,
        forwarder: SubscribeForwarder,
        history: AckHistoryRepository,
        push_status: PushStatusOf,
        routing: Routing,
    ) -> None:
        """`push_status` returns the state of a push subscription here, for people."""
        self._forwarder = forwarder
        self._history = history
        self._push_status = push_status
        self._routing = routing
        self._backlogs = Parts(BACKLOG, self._backlog_here, routing, Backlog)
        routing.serve(ACK_STATES, self._ack_states_here)

    async def backlog(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the backlog, and the reason why nothing is delivered, if there is one."""
        await self._backlogs.view(scope, receive, send, merged_backlog)

    async def _backlog_here(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        """Answer the states of a message by subscription; the owner of a lease tells of it.

        A state that cannot be asked for comes from committed rows.
        """
        states = await self._states(scope)
        pending = {name for name, state in states.items() if state.state == "pending"}
        by_owner = await self._owners(scope, pending) if pending else {}
        told = await asyncio.gather(*(self._ask(owner, scope) for owner in by_owner))
        for names, answer in zip(by_owner.values(), told, strict=True):
            states |= {name: state for name, state in answer.items() if name in names}
        await _tell_states(send, states)

    async def _ack_states_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the states as far as they are known here."""
        await _tell_states(send, await self._states(scope))

    async def _owners(self, scope: Scope, names: set[str]) -> dict[bytes, set[str]]:
        """Return the subscriptions that are owned elsewhere, by owner."""
        topic, _, where = await self._look(scope)
        assert isinstance(where, Where)
        by_owner: dict[bytes, set[str]] = {}
        of_topic: Sequence[Subscription]
        of_topic = await self._routing.catalog.subscriptions_of(topic.tenant_id, topic.uid)
        for subscription in of_topic:
            if subscription.name not in names:
                continue
            for owner in self._routing.find_of(subscription, [where.partition]).partitions:
                if owner != HERE:
                    by_owner.setdefault(owner, set()).add(subscription.name)
        return by_owner

    async def _ask(self, owner: bytes, scope: Scope) -> dict[str, AckState]:
        """Empty where the owner does not say."""
        peer, captured = self._routing.peer(owner), Captured()
        if peer is None:
            return {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                await peer.request(ACK_STATES, part_of(scope), receiving(b""), captured.send)
            return msgspec.json.decode(captured.body, type=AckStates).subscriptions
        except (PeerGone, TimeoutError, Problem, msgspec.MsgspecError):
            return {}

    async def _states(self, scope: Scope) -> dict[str, AckState]:
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
            states = await status.ack_states(self._forwarder, self._history, topic, where)
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

    async def _look(self, scope: Scope) -> tuple[Topic, MessageId, Where | Nowhere]:
        """Find the message of an id: 404 for an id of another topic, 400 for no id."""
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


async def _tell_states(send: Send, states: dict[str, AckState]) -> None:
    await respond(send, 200, _encode(AckStates(states)), headers=NO_STORE)


def merged_backlog(answers: Sequence[Backlog]) -> Backlog:
    """Return one backlog of several owners'.

    Counts add up. Every owner knows of every consumer: the most that one of them has counts.
    """
    partitions = [one for answer in answers for one in answer.partitions]
    return Backlog(
        messages=sum(one.messages for one in answers),
        leased=sum(one.leased for one in answers),
        waiting_redelivery=sum(one.waiting_redelivery for one in answers),
        waiting_pulls=max(one.waiting_pulls for one in answers),
        streams=max(one.streams for one in answers),
        paused=next((one.paused for one in answers if one.paused), None),
        throttles=_together([one.throttles for one in answers]),
        forwarders=sum(one.forwarders for one in answers),
        push=merged_push([one.push for one in answers if one.push]),
        partitions=sorted(partitions, key=lambda one: (one.partition, one.lane or 0)),
    )


def _together(throttles: Sequence[Sequence[Throttle]]) -> list[Throttle]:
    """Join restraints; those that several owners report alike appear once."""
    found: dict[tuple[str, str, float | None], Throttle] = {}
    for one in (each for some in throttles for each in some):
        found.setdefault((one.kind, one.reason, one.value), one)
    return list(found.values())
