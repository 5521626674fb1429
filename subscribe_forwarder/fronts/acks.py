"""Acks, nacks and the like at a forwarder that does not own all their messages.

Each owner is asked for its part, all at once. The invariant: 200 says of every item what its owner
said of it once that was committed. Where an owner could not be asked, or nobody knows what it did,
the answer is a 503, and the request may be sent again as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from edge.asgi import Receive, Scope, Send, caller_of, read_body, respond, tenant_of
from edge.bodies import decode
from edge.message_id import MessageId
from metadata.types import Subscription
from openapi.consume import Acked, Done
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.acks import Action
from subscribe_forwarder.api.items import Ids
from subscribe_forwarder.api.task_acks import several_partitions
from subscribe_forwarder.delivery.flush import ack_unavailable
from subscribe_forwarder.fleet.misdirected import is_misdirected
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.fronts.ack_parts import ANYWHERE, by_partition, merged, part_body
from subscribe_forwarder.fronts.relay import Captured, part_of, receiving
from subscribe_forwarder.fronts.routing import HERE, Found, Routing
from subscribe_forwarder.links.ports import PeerGone
from subscribe_forwarder.reading.staged import Nowhere, Where

PATIENCE_S = 1.0
"""Seconds a part may have no owner."""
REST_S = 0.02
"""Before the owner that the directory names is asked again, when it said that it is none."""
Answer = Acked | Done


class AckFront:
    """The owner proxy in front of one action on the partitions that are owned here."""

    def __init__(self, action: Action, routing: Routing, forwarder: SubscribeForwarder) -> None:
        self.action = action
        self.routing = routing
        self.operation = action.operation.route
        self._answers: msgspec.json.Decoder[Answer]
        self._answers = msgspec.json.Decoder(action.operation.answers[0].kind)
        self._forwarder = forwarder

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, self.action.max_body_bytes)
        if await self.routing.served_here(scope, lambda: self.action.act(scope, body, send)):
            return
        await respond(send, 200, await self._shared(scope, body))

    async def _shared(self, scope: Scope, body: bytes) -> bytes:
        """Return the answer of all owners; raises the Problem of any."""
        ids: Ids
        publishes = False
        if self.action.decoder is requests.ACK:
            request = await requests.ack_of(self._forwarder.workshop, tenant_of(scope), body)
            ids, publishes = request.ids, bool(request.publish)
            for topic in request.topics:  # its owner takes our word that the caller may
                await caller_of(scope).require("publish", "topic", topic)
        else:
            ids = requests.ids_of(decode(body, self.action.decoder))
        subscription = await self.routing.subscription(scope)
        waiting = await self._by_partition(subscription, ids)
        if publishes and len(waiting) > 1:
            raise several_partitions()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + PATIENCE_S
        done: list[tuple[Sequence[int], Answer]] = []
        while True:
            found, parts, missing = await self._owners(scope, subscription, waiting)
            answers = await asyncio.gather(
                *(
                    self._ask(scope, owner, body, ids, _items(waiting, numbers))
                    for owner, numbers in parts.items()
                ),
                return_exceptions=True,
            )
            waiting = {number: waiting[number] for number in missing} | self._not_done(
                parts, answers, waiting, done, publishes=publishes
            )
            if not waiting:
                return msgspec.json.encode(merged(done))
            left_s = until_s - loop.time()
            if left_s <= 0:
                raise ack_unavailable("A partition is changing hands.", self.action.what)
            rest_s = left_s if len(missing) == len(waiting) else REST_S
            await self.routing.changed_within(found, min(rest_s, left_s))

    async def _by_partition(self, subscription: Subscription, ids: Ids) -> dict[int, list[int]]:
        async def locate(wanted: Sequence[MessageId]) -> Sequence[Where | Nowhere]:
            return await self._forwarder.locate(subscription, wanted)

        topic = await self.routing.topic(subscription)
        return await by_partition(ids, subscription, topic, locate)

    async def _owners(
        self, scope: Scope, subscription: Subscription, waiting: Mapping[int, Sequence[int]]
    ) -> tuple[Found, dict[bytes, list[int]], list[int]]:
        """Return what was found, the partitions by owner, and those without one now."""
        wanted = [number for number in waiting if number != ANYWHERE]
        if wanted:
            found = self.routing.find_of(subscription, wanted)
        else:
            found = await self.routing.find(scope)
        parts = {owner: [n for n in of if n in waiting] for owner, of in found.partitions.items()}
        missing = [number for number in found.nowhere if number in waiting]
        if ANYWHERE in waiting:
            if parts:
                next(iter(parts.values())).append(ANYWHERE)
            else:
                missing.append(ANYWHERE)
        return found, {owner: numbers for owner, numbers in parts.items() if numbers}, missing

    async def _ask(
        self, scope: Scope, owner: bytes, body: bytes, ids: Ids, items: Sequence[int]
    ) -> Answer:
        """Raises PeerGone, and the Problem of the owner."""
        whole = len(items) == len(ids.texts)
        part = body if whole else part_body(body, ids, items)
        captured = Captured()
        if owner == HERE:
            await self.action.act(part_of(scope), part, captured.send)
        else:
            peer = self.routing.peer(owner)
            if peer is None:
                raise PeerGone("there is no link to the owner")
            await peer.request(
                self.operation, part_of(scope, headers=[]), receiving(part), captured.send
            )
        return self._answers.decode(captured.body)

    def _not_done(
        self,
        parts: Mapping[bytes, Sequence[int]],
        answers: Sequence[Answer | BaseException],
        waiting: Mapping[int, list[int]],
        done: list[tuple[Sequence[int], Answer]],
        *,
        publishes: bool,
    ) -> dict[int, list[int]]:
        """Return the ids to ask for again; raises what cannot be. Answers are added to `done`."""
        again: dict[int, list[int]] = {}
        failures: list[BaseException] = []
        for numbers, answer in zip(parts.values(), answers, strict=True):
            if not isinstance(answer, BaseException):
                done.append((_items(waiting, numbers), answer))
            elif is_misdirected(answer) or (
                isinstance(answer, PeerGone) and self.action.operation.id == "ack" and not publishes
            ):
                again |= {number: waiting[number] for number in numbers}
            elif isinstance(answer, PeerGone):
                gone = "The owner of a partition is gone."
                failures.append(ack_unavailable(gone, self.action.what))
            else:
                failures.append(answer)
        if failures:
            raise failures[0]
        return again


def _items(waiting: Mapping[int, Sequence[int]], numbers: Sequence[int]) -> list[int]:
    return sorted(item for number in numbers for item in waiting[number])
