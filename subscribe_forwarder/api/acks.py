"""Ack, nack, reject, release and modify_ack_deadline, each by item.

An ack, a nack and a reject are answered once they are committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from edge.asgi import Handler, Receive, Scope, Send, caller_of, read_body, respond, tenant_of
from edge.bodies import decode
from edge.message_id import MessageId
from edge.problem import TYPE_BASE, Problem, unavailable
from edge.quota import ACKS
from openapi.consume import OPERATIONS, Acked, AckedOutput, Done, ItemFailure
from openapi.contract import Operation
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.hubs import hub_of
from subscribe_forwarder.api.items import (
    Failure,
    Ids,
    Named,
    Place,
    UnknownPartition,
    lease_expired,
    lease_of,
    resolve,
)
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.reading.staged import Nowhere, Where
from subscribe_forwarder.state.lanes import Lane
from subscribe_forwarder.state.ledger import Now

MODIFY = "modifyAckDeadline"
_encode = msgspec.json.encode


class Action(NamedTuple):
    """An action on messages that a request names by their ids."""

    operation: Operation
    act: Callable[[Scope, bytes, Send], Awaitable[None]]
    """Given the body. Where it raises the Problem `misdirected`, nothing was done."""
    decoder: msgspec.json.Decoder[Any]
    max_body_bytes: int = requests.MAX_BODY_BYTES

    @property
    def what(self) -> str:
        """Return the name of the action in an answer that says that its outcome is unknown."""
        return "deadline" if self.operation.id == MODIFY else self.operation.id

    def handler(self) -> Handler:
        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            await self.act(scope, await read_body(scope, receive, self.max_body_bytes), send)

        return handle


class Acks:
    """Acts on messages of what is owned here."""

    def __init__(self, forwarder: SubscribeForwarder, task_acks: TaskAcks) -> None:
        self._forwarder = forwarder
        self._task_acks = task_acks
        self.actions = (
            Action(OPERATIONS["ack"], self.ack, requests.ACK, requests.MAX_ACK_BODY_BYTES),
            Action(OPERATIONS["nack"], self.nack, requests.NACK),
            Action(OPERATIONS["reject"], self.reject, requests.REJECT),
            Action(OPERATIONS["release"], self.release, requests.RELEASE),
            Action(OPERATIONS[MODIFY], self.modify, requests.MODIFY),
        )

    async def ack(self, scope: Scope, body: bytes, send: Send) -> None:
        """Ack messages: 200 once the acks are committed; items already acked count."""
        forwarder = self._forwarder
        request = await requests.ack_of(forwarder.workshop, tenant_of(scope), body)
        ids = request.ids
        for topic in request.topics:
            await caller_of(scope).require("publish", "topic", topic)
        hub = await hub_of(forwarder, scope)
        readers = hub.readers.copy()
        named = await self._named(hub, readers, ids)
        if request.publish:
            forwarder.require_lease()
            published = await self._task_acks.ack(
                tenant_of(scope), hub, readers, named, request.publish, forwarder.now
            )
            if hub.waiting:
                hub.dispatch()
            forwarder.usage.count(hub.subscription.tenant_id, ACKS, len(ids.texts))
            answer = Acked(
                len(ids.texts),
                [],
                published=[AckedOutput(each) for each in published.message_ids],
                duplicate=published.duplicate,
            )
            await respond(send, 200, _encode(answer))
            return
        exactly_once = hub.subscription.delivery == "exactly_once"
        new = 0
        touched = [readers[place] for place in named.places]
        for reader, places in zip(touched, named.places.values(), strict=True):
            if exactly_once:
                places = self._held(reader, places, named.failures)
            new += reader.acked(sorted([place.offset for place in places]))
        if hub.waiting:
            hub.dispatch()  # fewer outstanding messages, or ranges, may end a pause
        await forwarder.flusher.commit(touched)
        metrics.acked.inc(new)
        forwarder.usage.count(hub.subscription.tenant_id, ACKS, new)
        await respond(send, 200, _results(Acked, ids, named.failures))

    async def nack(self, scope: Scope, body: bytes, send: Send) -> None:
        """Nack messages durably: they are delivered again after the given delay, or the policy's.

        The attempt counts.
        """
        request = decode(body, requests.NACK)
        delay_s = request.delay_seconds
        delay_ms = None if delay_s is None else int(delay_s * 1000)

        def nack(reader: Reader, place: Place, now: Now) -> bool:
            return reader.ledger.fail(place.offset, now, delay_ms, request.reason)

        await self._each(
            scope, send, requests.ids_of(request), nack, "nack", what="nack", durably=True
        )

    async def reject(self, scope: Scope, body: bytes, send: Send) -> None:
        """Reject messages durably: they become dead letters."""
        request = decode(body, requests.REJECT)

        def reject(reader: Reader, place: Place, now: Now) -> bool:
            return reader.ledger.reject(place.offset, now, request.reason)

        hub = await hub_of(self._forwarder, scope)
        if hub.subscription.dead_letter_topic is None:
            raise Problem.of(
                "no-dead-letter-topic",
                "The subscription has no dead_letter_topic that rejected messages could go to.",
            )
        await self._each(
            scope, send, requests.ids_of(request), reject, "reject", what="reject", durably=True
        )

    async def release(self, scope: Scope, body: bytes, send: Send) -> None:
        """Release messages: they are delivered again at once, and no attempt counts."""
        ids = requests.ids_of(decode(body, requests.RELEASE))

        def release(reader: Reader, place: Place, now: Now) -> bool:
            return reader.ledger.give_back(place.offset)

        await self._each(scope, send, ids, release, "released", what="release")

    async def modify(self, scope: Scope, body: bytes, send: Send) -> None:
        """The lease ends that many seconds from now; 0 is a nack without a delay."""
        request = decode(body, requests.MODIFY)
        seconds = request.deadline_seconds

        def modify(reader: Reader, place: Place, now: Now) -> bool:
            if not seconds:
                return reader.ledger.fail(place.offset, now, 0, None)
            return reader.ledger.extend(place.offset, now.ms + int(seconds * 1000))

        ended = None if seconds else "nack"
        await self._each(
            scope,
            send,
            requests.ids_of(request),
            modify,
            ended,
            what="deadline",
            durably=not seconds,
        )

    async def _each(
        self,
        scope: Scope,
        send: Send,
        ids: Ids,
        act: Callable[[Reader, Place, Now], bool],
        ended: str | None,
        *,
        what: str,
        durably: bool = False,
    ) -> None:
        """Act on each item whose lease is the present one.

        A durable action, and any action on an exactly-once lease, is committed before the answer.
        """
        forwarder = self._forwarder
        hub = await hub_of(forwarder, scope)
        forwarder.require_lease()
        readers = hub.readers.copy()
        named = await self._named(hub, readers, ids)
        named.failures.extend(Failure(item, lease_expired()) for item in named.gone)
        now = forwarder.now()
        touched = [readers[lane] for lane in named.places]
        _require_owned(touched)
        done = 0
        for reader, places in zip(touched, named.places.values(), strict=True):
            reader.ledger.expire(now)
            for place in places:
                problem = lease_of(reader, place)
                if problem is None and not act(reader, place, now):
                    problem = lease_expired()
                if problem is None:
                    done += 1
                else:
                    named.failures.append(Failure(place.item, problem))
        if ended is not None:
            metrics.lease_ended.labels(ended).inc(done)
        if durably or hub.subscription.delivery == "exactly_once":
            await forwarder.flusher.commit(touched, what)
        hub.dispatch()
        await respond(send, 200, _results(Done, ids, named.failures))

    def _held(
        self, reader: Reader, places: Sequence[Place], failures: list[Failure]
    ) -> list[Place]:
        """Return the acks of an exactly-once subscription whose lease holds the message.

        Repeats of an ack are no failure, and nothing to do.
        """
        _require_owned([reader])
        self._forwarder.require_lease()
        reader.ledger.expire(self._forwarder.now())
        held = []
        for place in places:
            lease = place.offset, place.epoch, place.attempt
            if reader.ledger.holds(*lease):
                held.append(place)
            elif not reader.ledger.acked_under(*lease):
                failures.append(Failure(place.item, lease_expired()))
        return held

    async def _named(self, hub: Hub, readers: Mapping[Lane, Reader], ids: Ids) -> Named:
        forwarder, subscription = self._forwarder, hub.subscription
        catalog, tenant_id = forwarder.catalog, subscription.tenant_id

        async def locate(wanted: Sequence[MessageId]) -> Sequence[Where | Nowhere]:
            return await forwarder.locate(subscription, wanted)

        topic = await catalog.topic_by_uid(tenant_id, subscription.topic_uid)
        named = ids, subscription, readers, forwarder.ack_key
        try:
            return await resolve(*named, topic, locate)
        except UnknownPartition:
            topic = await catalog.topic(tenant_id, subscription.topic_name, refresh=True)
            return await resolve(*named, topic, locate, fresh=True)


def _require_owned(readers: Iterable[Reader]) -> None:
    if any(reader.frozen for reader in readers):
        raise unavailable("subscription", "A partition is being taken over; ask again.")


def _results(kind: type[Acked | Done], ids: Ids, failures: list[Failure]) -> bytes:
    failures.sort(key=lambda failure: failure.item)
    results = [_failed(ids, failure) for failure in failures]
    return _encode(kind(len(ids.texts) - len(failures), results))


def _failed(ids: Ids, failure: Failure) -> ItemFailure:
    text, problem = ids.texts[failure.item], failure.problem
    return ItemFailure(
        index=failure.item,
        ack_id=text if ids.field == "ack_id" else UNSET,
        message_id=text if ids.field == "message_id" else UNSET,
        status=problem.status,
        type=TYPE_BASE + problem.slug,
        detail=problem.detail,
    )
