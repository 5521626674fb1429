"""Lists and resumes keys that wait aside, and gives up their first messages.

A change is answered once it is committed. A key is parked in a partition, seldom in several: each
owner of the subscription lists and changes its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from edge.asgi import Receive, Route, Scope, Send, read_body, respond
from edge.bodies import decode
from edge.problem import Problem, not_found, unavailable
from metadata.delivery.deliveries import OpenDelivery, Reason
from openapi import dead_letters as contract
from outbox.dead_letter import original_id
from outbox.reading import Stored, read
from subscribe_forwarder.api.hubs import hub_of
from subscribe_forwarder.delivery.dead_letter_writer import DeadLetterWriter
from subscribe_forwarder.delivery.flush import ack_unavailable
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.key_sequencer import ParkedKey
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.order import hash_of
from subscribe_forwarder.fleet.proxy.parts import (
    NO_STORE,
    PATIENCE_S,
    REST_S,
    Parts,
    is_not_found,
    lost,
)
from subscribe_forwarder.fleet.proxy.relay import receiving
from subscribe_forwarder.fleet.proxy.routing import Routing, nowhere
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import PeerGone

MAX_SHOWN = 1000
MAX_BODY_BYTES = 16 * 1024
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.encode


class _Found(NamedTuple):
    """A parked key of one lane."""

    place: Lane
    reader: Reader
    parked: ParkedKey


_RESUME = msgspec.json.Decoder(contract.ResumeKeyRequest)
_SKIP = msgspec.json.Decoder(contract.SkipKeyRequest)


class ParkedKeys:
    def __init__(
        self, forwarder: SubscribeForwarder, dead_letter_writer: DeadLetterWriter, routing: Routing
    ) -> None:
        self._forwarder = forwarder
        self._dead_letter_writer = dead_letter_writer
        self._list, self._resume, self._skip = (
            contract.OPERATIONS[name]
            for name in ("listParkedKeys", "resumeParkedKey", "skipParkedKey")
        )
        done = contract.ParkedKeyDone
        self._pages = Parts(self._list.route, self._page_here, routing, contract.ParkedKeys)
        self._resumed = Parts(self._resume.route, self._resume_here, routing, done)
        self._skipped = Parts(self._skip.route, self._skip_here, routing, done)

    def routes(self) -> list[Route]:
        return [
            Route(self._list, self.page),
            Route(self._resume, self.resume),
            Route(self._skip, self.skip),
        ]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._pages.view(scope, receive, send, _merged)

    async def resume(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Deliver the first message of a key again, with all of its attempts."""
        await _act(self._resumed, scope, receive, send)

    async def skip(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Skip the first message of a key or make it a dead letter; the next one is delivered."""
        await _act(self._skipped, scope, receive, send)

    # The part that is here.

    async def _page_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = await self._hub(scope)
        subscription = hub.subscription
        topic = await self._forwarder.catalog.topic_by_uid(
            subscription.tenant_id, subscription.topic_uid
        )
        shown: list[contract.ParkedKey] = []
        for place, reader in sorted(hub.readers.items()):
            parked = _parked(reader)[: MAX_SHOWN - len(shown)]
            offsets = [each.head.offset for each in parked]
            stored = await read(self._forwarder.history, topic, *place, offsets)
            for each in parked:
                shown.append(_view(topic.uid, place, each, stored.get(each.head.offset)))
        await respond(send, 200, _encode(contract.ParkedKeys(shown)), headers=NO_STORE)

    async def _resume_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = decode(await read_body(scope, receive, MAX_BODY_BYTES), _RESUME)
        hub = await self._hub(scope)
        found = self._find(hub, body.key)
        done = [each for each in found if _resume(each)]
        await self._commit(send, hub, done)

    async def _skip_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = decode(await read_body(scope, receive, MAX_BODY_BYTES), _SKIP)
        hub = await self._hub(scope)
        found = self._find(hub, body.key)
        if body.dead_letter:
            done = await self._write_dead_letters(hub, found)
        else:
            done = [each for each in found if _skip(each)]
        await self._commit(send, hub, done)

    async def _hub(self, scope: Scope) -> Hub:
        self._forwarder.require_lease()
        return await hub_of(self._forwarder, scope)

    def _find(self, hub: Hub, key: str) -> list[_Found]:
        """Return the key in each lane where it is parked. Raise a 404 Problem if there is none."""
        wanted = hash_of(key)
        found = [
            _Found(place, reader, each)
            for place, reader in hub.readers.items()
            for each in _parked(reader)
            if each.key_hash == wanted
        ]
        if not found:
            raise not_found("parked-key", key)
        if any(each.reader.frozen for each in found):
            raise unavailable("subscription", "The ownership of the partition is being checked.")
        return found

    async def _write_dead_letters(self, hub: Hub, found: list[_Found]) -> list[_Found]:
        if hub.subscription.dead_letter_topic is None:
            raise Problem.of(
                "conflict",
                f"The subscription {hub.subscription.name!r} has no dead-letter topic.",
            )
        for each in found:
            dead: OpenDelivery = replace(each.parked.head, reason=Reason.EXHAUSTED)
            why = await self._dead_letter_writer.write_now(each.reader, dead)
            if why is not None:
                raise unavailable("subscription", f"The dead letter could not be written: {why}.")
        return found

    async def _commit(self, send: Send, hub: Hub, done: list[_Found]) -> None:
        await self._forwarder.flusher.commit([each.reader for each in done])
        hub.dispatch()
        await respond(send, 200, _encode(contract.ParkedKeyDone(len(done))), headers=NO_STORE)


def _merged(answers: Sequence[contract.ParkedKeys]) -> contract.ParkedKeys:
    keys = [one for answer in answers for one in answer.parked_keys]
    keys.sort(key=lambda one: (one.partition, one.lane or 0))
    return contract.ParkedKeys(keys[:MAX_SHOWN])


async def _act(
    parts: Parts[contract.ParkedKeyDone], scope: Scope, receive: Receive, send: Send
) -> None:
    body = await read_body(scope, receive, MAX_BODY_BYTES)
    if await parts.routing.served_here(scope, lambda: parts.local(scope, receiving(body), send)):
        return
    done = contract.ParkedKeyDone(await _done(parts, scope, body))
    await respond(send, 200, _encode(done), headers=NO_STORE)


async def _done(parts: Parts[contract.ParkedKeyDone], scope: Scope, body: bytes) -> int:
    """Have a change made at the owners; it is made once: who has made it is not asked again."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    while True:
        found = await parts.routing.find(scope)
        answers = await parts.ask(found, scope, body) if found.whole else ()
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
        await parts.routing.changed_within(found, min(left_s, REST_S))


def _view(
    topic_uid: bytes, place: Lane, parked: ParkedKey, stored: Stored | None
) -> contract.ParkedKey:
    head = parked.head
    message_id = None
    if stored is not None:
        message_id = original_id(topic_uid, place.partition, place.lane, head.offset, stored)
    return contract.ParkedKey(
        None if stored is None else stored.message.key,
        place.partition,
        place.lane,
        head.attempts,
        head.reason.value,
        head.detail,
        message_id,
        parked.behind,
        None if head.last_us is None else _UNIX + timedelta(microseconds=head.last_us),
    )


def _parked(reader: Reader) -> list[ParkedKey]:
    return [] if reader.keys is None else reader.keys.parked()


def _resume(found: _Found) -> bool:
    return found.reader.keys is not None and found.reader.keys.resume(found.parked.key_hash)


def _skip(found: _Found) -> bool:
    return found.reader.keys is not None and found.reader.keys.skip(found.parked.key_hash)
