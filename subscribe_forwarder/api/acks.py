"""Handles ack, nack, reject, release and modify_ack_deadline, each by item.

An ack, a nack and a reject are answered once they are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from edge.asgi import Receive, Route, Scope, Send, caller_of, read_body, respond, tenant_of
from edge.bodies import decode
from edge.message_id import MessageId
from edge.problem import TYPE_BASE, Problem, unavailable
from edge.quota import ACKS
from metadata.types import Subscription
from openapi.consume import OPERATIONS, Acked, AckedOutput, Done, ItemFailure
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.ack_parts import ANYWHERE, by_partition, merged, part_body
from subscribe_forwarder.api.hubs import hub_of
from subscribe_forwarder.api.items import (
    Failure,
    Ids,
    LaneItem,
    Named,
    UnknownPartition,
    lease_expired,
    lease_of,
    resolve,
)
from subscribe_forwarder.api.task_acks import TaskAcks, several_partitions
from subscribe_forwarder.delivery.flush import ack_unavailable
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.staged import Nowhere, Where
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.ledger import Now
from subscribe_forwarder.fleet.proxy.relay import Captured, part_of, receiving
from subscribe_forwarder.fleet.proxy.routing import HERE, Found, Routing
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import PeerGone, is_misdirected

MODIFY = "modifyAckDeadline"
PATIENCE_S = 1.0
"""Seconds a part may have no owner."""
REST_S = 0.02
"""Before the owner that the directory names is asked again, when it said that it is none."""
Answer = Acked | Done
_encode = msgspec.json.encode


class Action:
    """One action on messages that a request names by their ids, wherever they are owned.

    Each owner is asked for its part, all at once. The invariant: 200 says of every item what its
    owner said of it once that was committed. Where an owner could not be asked, or nobody knows
    what it did, the answer is a 503, and the request may be sent again as it was.
    """

    def __init__(
        self,
        name: str,
        act: Callable[[Scope, bytes, Send], Awaitable[None]],
        decoder: msgspec.json.Decoder[Any],
        forwarder: SubscribeForwarder,
        routing: Routing,
        max_body_bytes: int = requests.MAX_BODY_BYTES,
    ) -> None:
        """Serve `act` to peers too: it acts on what is owned here, given the body. Where it raises
        the Problem `misdirected`, nothing was done."""
        self.operation = OPERATIONS[name]
        self._act = act
        self._decoder = decoder
        self._forwarder = forwarder
        self._routing = routing
        self._max_body_bytes = max_body_bytes
        self._answers: msgspec.json.Decoder[Answer]
        self._answers = msgspec.json.Decoder(self.operation.answers[0].kind)
        routing.serve(self.operation.route, self._here)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Act on messages, owned here or elsewhere, and answer 200 with a result per item."""
        body = await read_body(scope, receive, self._max_body_bytes)
        if await self._routing.served_here(scope, lambda: self._act(scope, body, send)):
            return
        await respond(send, 200, await self._shared(scope, body))

    async def _here(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._act(scope, await read_body(scope, receive, self._max_body_bytes), send)

    @property
    def _what(self) -> str:
        """Return the name of the action in an answer that says that its outcome is unknown."""
        return "deadline" if self.operation.id == MODIFY else self.operation.id

    async def _shared(self, scope: Scope, body: bytes) -> bytes:
        """Return the answer of all owners; raises the Problem of any."""
        ids: Ids
        publishes = False
        if self._decoder is requests.ACK:
            request = await requests.ack_of(self._forwarder.process_pool, tenant_of(scope), body)
            ids, publishes = request.ids, bool(request.publish)
            for topic in request.topics:  # its owner takes our word that the caller may
                await caller_of(scope).require("publish", "topic", topic)
        else:
            ids = requests.ids_of(decode(body, self._decoder))
        subscription = await self._routing.subscription(scope)
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
                raise ack_unavailable("A partition is changing hands.", self._what)
            rest_s = left_s if len(missing) == len(waiting) else REST_S
            await self._routing.changed_within(found, min(rest_s, left_s))

    async def _by_partition(self, subscription: Subscription, ids: Ids) -> dict[int, list[int]]:
        async def locate(wanted: Sequence[MessageId]) -> Sequence[Where | Nowhere]:
            return await self._forwarder.locate(subscription, wanted)

        topic = await self._routing.topic(subscription)
        return await by_partition(ids, subscription, topic, locate)

    async def _owners(
        self, scope: Scope, subscription: Subscription, waiting: Mapping[int, Sequence[int]]
    ) -> tuple[Found, dict[bytes, list[int]], list[int]]:
        """Return what was found, the partitions by owner, and those without one now."""
        wanted = [number for number in waiting if number != ANYWHERE]
        if wanted:
            found = self._routing.find_of(subscription, wanted)
        else:
            found = await self._routing.find(scope)
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
            await self._act(part_of(scope), part, captured.send)
        else:
            peer = self._routing.peer(owner)
            if peer is None:
                raise PeerGone("there is no link to the owner")
            await peer.request(
                self.operation.route, part_of(scope, headers=[]), receiving(part), captured.send
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
                isinstance(answer, PeerGone) and self.operation.id == "ack" and not publishes
            ):
                again |= {number: waiting[number] for number in numbers}
            elif isinstance(answer, PeerGone):
                gone = "The owner of a partition is gone."
                failures.append(ack_unavailable(gone, self._what))
            else:
                failures.append(answer)
        if failures:
            raise failures[0]
        return again


class Acks:
    """Acts on messages that are owned here."""

    def __init__(
        self, forwarder: SubscribeForwarder, task_acks: TaskAcks, routing: Routing
    ) -> None:
        self._forwarder = forwarder
        self._task_acks = task_acks
        of = forwarder, routing
        self.ack = Action(
            "ack", self._ack, requests.ACK, *of, max_body_bytes=requests.MAX_ACK_BODY_BYTES
        )
        self.release = Action("release", self._release, requests.RELEASE, *of)
        self._actions = (
            self.ack,
            Action("nack", self._nack, requests.NACK, *of),
            Action("reject", self._reject, requests.REJECT, *of),
            self.release,
            Action(MODIFY, self._modify, requests.MODIFY, *of),
        )

    def routes(self) -> list[Route]:
        return [Route(one.operation, one.handle) for one in self._actions]

    async def _ack(self, scope: Scope, body: bytes, send: Send) -> None:
        """Ack messages that are owned here, and answer 200 once the acks are committed.

        Items that are acked already count as acked.
        """
        forwarder = self._forwarder
        request = await requests.ack_of(forwarder.process_pool, tenant_of(scope), body)
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
            hub.settled()
            forwarder.usage.count(hub.subscription.tenant_id, ACKS, named.messages)
            answer = Acked(
                named.messages,
                [],
                published=[AckedOutput(each) for each in published.message_ids],
                duplicate=published.duplicate,
            )
            await respond(send, 200, _encode(answer))
            return
        exactly_once = hub.subscription.delivery == "exactly_once"
        refused, new = len(named.failures), 0
        touched = [readers[lane] for lane in named.places]
        for reader, lane in zip(touched, named.places, strict=True):
            if exactly_once:
                new += reader.acked(self._held(reader, named.each(lane), named.failures))
            else:
                new += reader.acked(named.offsets(lane))
        hub.settled()
        await forwarder.flusher.commit(touched, acked=new)
        metrics.acked.inc(new)
        forwarder.usage.count(hub.subscription.tenant_id, ACKS, new)
        await respond(send, 200, _results(Acked, ids, named, refused))

    async def _nack(self, scope: Scope, body: bytes, send: Send) -> None:
        """Nack messages durably: they are delivered again after the given delay, or the policy's.

        The attempt counts.
        """
        request = decode(body, requests.NACK)
        delay_s = request.delay_seconds
        delay_ms = None if delay_s is None else int(delay_s * 1000)

        def nack(reader: Reader, place: LaneItem, now: Now) -> bool:
            return reader.ledger.fail(place.offset, now, delay_ms, request.reason)

        await self._each(
            scope, send, requests.ids_of(request), nack, "nack", what="nack", durably=True
        )

    async def _reject(self, scope: Scope, body: bytes, send: Send) -> None:
        """Reject messages durably: they become dead letters."""
        request = decode(body, requests.REJECT)

        def reject(reader: Reader, place: LaneItem, now: Now) -> bool:
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

    async def _release(self, scope: Scope, body: bytes, send: Send) -> None:
        """Release messages: they are delivered again at once, and no attempt counts."""
        ids = requests.ids_of(decode(body, requests.RELEASE))

        def release(reader: Reader, place: LaneItem, now: Now) -> bool:
            return reader.ledger.give_back(place.offset)

        await self._each(scope, send, ids, release, "released", what="release")

    async def _modify(self, scope: Scope, body: bytes, send: Send) -> None:
        """Set the lease to end that many seconds from now; 0 is a nack without a delay."""
        request = decode(body, requests.MODIFY)
        seconds = request.deadline_seconds

        def modify(reader: Reader, place: LaneItem, now: Now) -> bool:
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
        act: Callable[[Reader, LaneItem, Now], bool],
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
        refused = len(named.failures)
        named.failures.extend(Failure(item, lease_expired()) for item in named.gone)
        now = forwarder.now()
        touched = [readers[lane] for lane in named.places]
        _require_owned(touched)
        done = 0
        for reader, lane in zip(touched, named.places, strict=True):
            reader.ledger.expire(now)
            for place in named.each(lane):
                problem = lease_of(reader, place)
                if problem is None and not act(reader, place, now):
                    problem = lease_expired()
                if problem is None:
                    done += 1
                else:
                    named.failures.append(place.failed(problem))
        if ended is not None:
            metrics.lease_ended.labels(ended).inc(done)
        if durably or hub.subscription.delivery == "exactly_once":
            await forwarder.flusher.commit(touched, what)
        hub.dispatch()
        await respond(send, 200, _results(Done, ids, named, refused))

    def _held(
        self, reader: Reader, places: Iterable[LaneItem], failures: list[Failure]
    ) -> list[int]:
        """Return the offsets, ascending, that acks name whose exactly-once lease is held.

        Repeats of an ack are no failure, and nothing to do.
        """
        _require_owned([reader])
        self._forwarder.require_lease()
        reader.ledger.expire(self._forwarder.now())
        held = []
        for place in places:
            lease = place.offset, place.epoch, place.attempt
            if reader.ledger.held.holds(*lease):
                held.append(place.offset)
            elif not reader.ledger.held.acked_under(*lease):
                failures.append(place.failed(lease_expired()))
        return sorted(held)

    async def _named(self, hub: Hub, readers: Mapping[Lane, Reader], ids: Ids) -> Named:
        """Return the messages that ids name; read the topic again if it may have grown."""
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


def _items(waiting: Mapping[int, Sequence[int]], numbers: Sequence[int]) -> list[int]:
    return sorted(item for number in numbers for item in waiting[number])


def _require_owned(readers: Iterable[Reader]) -> None:
    if any(reader.frozen for reader in readers):
        raise unavailable("subscription", "A partition is being taken over; ask again.")


def _results(kind: type[Acked | Done], ids: Ids, named: Named, refused: int) -> bytes:
    """Return the JSON of an answer that lists what failed.

    `refused` of the failures are of ids that name nothing; each other one is of one message.
    """
    done = named.messages - (len(named.failures) - refused)
    named.failures.sort(key=lambda failure: failure.item)
    return _encode(kind(done, [_failed(ids, failure) for failure in named.failures]))


def _failed(ids: Ids, failure: Failure) -> ItemFailure:
    text, problem = failure.ack_id or ids.texts[failure.item], failure.problem
    return ItemFailure(
        index=failure.item,
        ack_id=text if ids.field == "ack_id" else UNSET,
        message_id=text if ids.field == "message_id" else UNSET,
        status=problem.status,
        type=TYPE_BASE + problem.slug,
        detail=problem.detail,
    )
