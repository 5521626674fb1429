"""The views of a subscription whose partitions are owned by several forwarders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic

import msgspec

from edge.asgi import Receive, Route, Scope, Send, read_body, respond
from edge.problem import Problem
from metadata.types import Subscription
from openapi import dead_letters as contract
from openapi.flow import Throttle
from openapi.subscriptions import Backlog, PartitionBacklog
from openapi.topics import AckState, AckStates
from subscribe_forwarder.api.parked import MAX_BODY_BYTES, MAX_SHOWN, ParkedKeys
from subscribe_forwarder.api.views import NO_STORE, Views, tell_states
from subscribe_forwarder.delivery.flush import ack_unavailable
from subscribe_forwarder.fronts.parts import PATIENCE_S, REST_S, Answer, Parts, is_not_found, lost
from subscribe_forwarder.fronts.relay import Captured, part_of, receiving
from subscribe_forwarder.fronts.routing import HERE, Routing, nowhere
from subscribe_forwarder.links.ports import PeerGone
from subscribe_forwarder.push.status import merged

BACKLOG = "GET /subscriptions/{name}/backlog"
ACK_STATES = "GET /topics/{topic}/messages/{id}/ack"
_encode = msgspec.json.encode


class ViewFront(Generic[Answer]):
    """The owner proxy in front of a view of what is owned here; `merge` makes one view of
    several.
    """

    def __init__(self, parts: Parts[Answer]) -> None:
        self._parts = parts

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = self._parts
        if await parts.routing.served_here(scope, lambda: parts.local(scope, receive, send)):
            return
        answers = await self._parts.of_all(scope)
        await respond(send, 200, _encode(self.merge(answers)), headers=NO_STORE)

    def merge(self, answers: Sequence[Answer]) -> Answer:
        raise NotImplementedError


class BacklogFront(ViewFront[Backlog]):
    """Counts add up. Every owner knows of every consumer: the most that one of them has."""

    def merge(self, answers: Sequence[Backlog]) -> Backlog:
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
            push=merged([one.push for one in answers if one.push]),
            partitions=sorted(partitions, key=_place),
        )


class ParkedFront(ViewFront[contract.ParkedKeys]):
    """The owner proxy of parked keys, wherever their partitions are owned."""

    def merge(self, answers: Sequence[contract.ParkedKeys]) -> contract.ParkedKeys:
        keys = [one for answer in answers for one in answer.parked_keys]
        return contract.ParkedKeys(sorted(keys, key=_place)[:MAX_SHOWN])


class ParkedActionFront:
    """Resuming or skipping a key, which is parked in a partition, seldom in several.

    It is done once: an owner that has done it is not asked again.
    """

    def __init__(self, parts: Parts[contract.ParkedKeyDone]) -> None:
        self._parts = parts

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, MAX_BODY_BYTES)
        parts = self._parts
        if await parts.routing.served_here(
            scope, lambda: parts.local(scope, receiving(body), send)
        ):
            return
        done = contract.ParkedKeyDone(await self._done(scope, body))
        await respond(send, 200, _encode(done), headers=NO_STORE)

    async def _done(self, scope: Scope, body: bytes) -> int:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + PATIENCE_S
        while True:
            found = await self._parts.routing.find(scope)
            answers = await self._parts.ask(found, scope, body) if found.whole else ()
            done = sum(one.done for one in answers if not isinstance(one, Exception))
            if done:
                return done
            failures = [one for one in answers if isinstance(one, Exception)]
            if any(isinstance(one, PeerGone) for one in failures):
                raise ack_unavailable("The owner of a partition is gone.", "request")
            worse = [one for one in failures if not lost(one) and not is_not_found(one)]
            if worse:
                raise worse[0]
            if found.whole and not any(lost(one) for one in failures):
                if failures:
                    raise failures[0]
                return 0
            left_s = until_s - loop.time()
            if left_s <= 0:
                raise nowhere()
            await self._parts.routing.changed_within(found, min(left_s, REST_S))


class AckStatesFront:
    """The states of a message by subscription; the owner of a lease tells of it."""

    def __init__(self, views: Views, routing: Routing) -> None:
        self._views = views
        self._routing = routing

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the states.

        A state that cannot be asked for comes from committed rows.
        """
        states = await self._views.states(scope)
        pending = {name for name, state in states.items() if state.state == "pending"}
        by_owner = await self._owners(scope, pending) if pending else {}
        told = await asyncio.gather(*(self._ask(owner, scope) for owner in by_owner))
        for names, answer in zip(by_owner.values(), told, strict=True):
            states |= {name: state for name, state in answer.items() if name in names}
        await tell_states(send, states)

    async def _owners(self, scope: Scope, names: set[str]) -> dict[bytes, set[str]]:
        """Return the subscriptions that are owned elsewhere, by owner."""
        topic, where = await self._views.find(scope)
        by_owner: dict[bytes, set[str]] = {}
        subscriptions: Sequence[Subscription]
        subscriptions = await self._routing.catalog.subscriptions_of(topic.tenant_id, topic.uid)
        for subscription in subscriptions:
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


def parked_routes(parked: ParkedKeys, routing: Routing) -> list[Route]:
    """Return its routes, for keys that are parked at any owner."""
    fronted = []
    for route in parked.routes():
        operation = route.operation.route
        routing.serve(operation, route.handler)
        if route.method == "GET":
            keys = Parts(operation, route.handler, routing, contract.ParkedKeys)
            front = ParkedFront(keys).get
        else:
            done = Parts(operation, route.handler, routing, contract.ParkedKeyDone)
            front = ParkedActionFront(done).post
        fronted.append(route._replace(handler=front))
    return fronted


def _together(throttles: Sequence[Sequence[Throttle]]) -> list[Throttle]:
    """Join restraints; those that several owners report alike appear once."""
    found: dict[tuple[str, str, float | None], Throttle] = {}
    for one in (each for some in throttles for each in some):
        found.setdefault((one.kind, one.reason, one.value), one)
    return list(found.values())


def _place(one: PartitionBacklog | contract.ParkedKey) -> tuple[int, int]:
    return one.partition, one.lane or 0
