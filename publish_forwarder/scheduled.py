"""Cancelling and rescheduling messages that wait for their time, as plain ASGI handlers.

The log decides: a message is released or it is not, and a caller that cancels and a scheduler that
releases learn the same. Asking twice is no error. A change is answered only once the log has it.

When a message of a sealed queue is due, it is copied to a successor, recorded in Postgres and then
discarded; so “discarded” in such a queue may mean published. The log also decides whether such a
copy is made of the message as it was, or as it is now (`outbox/delayed.py`). The log is asked
whether a queue is sealed after the change, because the catalog may be out of date.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import NamedTuple, NoReturn

import msgspec
from msgspec import UNSET

from appending.writer import Writer
from edge import message_id
from edge.asgi import Receive, Scope, Send, path_param, read_body, respond, tenant_of
from edge.decode_errors import field_error, malformed
from edge.message_id import BadMessageId, MessageId
from edge.problem import Problem, invalid, not_found
from edge.times import rfc3339
from metadata.catalog import Catalog
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded, ForwardedRepository
from metadata.errors import MetadataError
from metadata.types import Topic
from openapi.topics import Reschedule, Rescheduled
from outbox.delayed import take_turn
from publish_forwarder import delays
from publish_forwarder.delays import Delay
from publish_forwarder.failures import problem_of_lookup
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, Unavailable
from store_nodes.queue_id import QueueId

MAX_BODY_BYTES = 64 * 1024
DELIVER_AT = "deliver_at"
"""The field that a refusal names, also where a body has both times or none."""


class StagedMessagePlace(NamedTuple):
    """The place where a message was staged."""

    topic: Topic
    group: int
    queue: QueueId
    number: int
    text: str


_reschedule = msgspec.json.Decoder(Reschedule)


class ScheduledMessages:
    """The handlers; `forwarded` knows the messages of sealed queues that were published from
    others.
    """

    def __init__(
        self, catalog: Catalog, store: StoreClient, forwarded: ForwardedRepository | None
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._forwarded = forwarded
        self._writer = Writer(store)

    async def cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 204 once it is certain that the message will not be published."""
        place = await self._find(scope)
        if not await self._change(
            place, self._store.discard(place.group, place.queue, [place.number])
        ):
            await self._require_discarded(place)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def reschedule(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the new time; a time that is not in the future means now."""
        place = await self._find(scope)
        now_us = delays.now_us()
        delay = _delay(await read_body(scope, receive, MAX_BODY_BYTES), now_us)
        due_us = max(now_us, delay.due_us(now_us)) if delay is not None else now_us
        change = self._store.reschedule(place.group, place.queue, [place.number], [due_us])
        if not await self._change(place, change, due_us):
            await self._require_discarded(place)
            raise Problem.of(
                "message-cancelled",
                f"The message {place.text} was cancelled; publish it again to send it after all.",
            )
        answer = Rescheduled(
            message_id=place.text,
            topic=place.topic.name,
            partition=place.queue.partition,
            scheduled_for=rfc3339(due_us),
        )
        await respond(send, 200, msgspec.json.encode(answer))

    async def _find(self, scope: Scope) -> StagedMessagePlace:
        """Return the place of a message; raises a Problem.

        It is 400 for a text that is no id, 404 for an id of another topic, and 409 for a published
        message.
        """
        name, text = path_param(scope, "topic"), path_param(scope, "id")
        try:
            topic = await self._catalog.topic(tenant_of(scope), name)
        except MetadataError as error:
            raise problem_of_lookup(error, name) from error
        try:
            wanted = message_id.parse(text)
        except BadMessageId as error:
            raise Problem.of("bad-message-id", f"{error}.") from error
        generations = topic.generations(wanted.partition, wanted.lane)
        if wanted.topic_uid != topic.uid or not generations:
            raise not_found("message", text)
        if wanted.form == message_id.FORM_OFFSET:
            await self._refuse_published(topic, wanted)
        for one in generations:
            if one.generation == wanted.generation:
                queue = QueueId(topic.uid, one.number, one.lane, one.generation)
                return StagedMessagePlace(topic, one.group, queue, wanted.stage_number, text)
        raise not_found("message", text)

    async def _refuse_published(self, topic: Topic, wanted: MessageId) -> NoReturn:
        """Raise 409 for a message that was published without waiting, or 404 if its offset is not
        used.
        """
        last = topic.generations(wanted.partition, wanted.lane)[-1]
        queue = QueueId(topic.uid, last.number, last.lane, last.generation)
        try:
            end = (await self._store.offsets(last.group, queue)).end
        except QueueNotFound:
            end = 0
        if wanted.number >= end:
            raise not_found("message", str(wanted))
        raise _released(str(wanted))

    async def _change(
        self, place: StagedMessagePlace, change: Awaitable[int], due_us: int | None = None
    ) -> bool:
        """Carry out a change; return whether the message was staged and is changed.

        The change sets the time `due_us`, or cancels the message. Raises a Problem if the message
        is published.
        """
        try:
            done = await change
        except QueueNotFound:
            raise not_found("message", place.text) from None
        if not done:
            return False
        await self._confirm(place, due_us)
        return True

    async def _confirm(self, place: StagedMessagePlace, due_us: int | None = None) -> None:
        """Make a change certain, or raise a Problem: a sealed queue leads to others, which may have
        or get a copy of the message as it was before.
        """
        try:
            if await self._is_sealed(place):
                await self._require_no_copy(place, due_us)
        except QueueNotFound as error:
            # It was sealed a moment ago and its successor is not made yet, or its topic is being
            # deleted. A scheduler may be about to copy the message to that successor, also where
            # nothing was changed now.
            raise Unavailable(f"{place.queue} is being moved") from error

    async def _is_sealed(self, place: StagedMessagePlace) -> bool:
        return (await self._store.offsets(place.group, place.queue)).sealed

    async def _require_no_copy(self, place: StagedMessagePlace, due_us: int | None = None) -> None:
        """Raise 409 if the message was published from another queue as it was before its change.

        If this returns, it never will be. Raises QueueNotFound if that is unknown. A copy that was
        published at `due_us` or later satisfies the request: a message that is to be sent at once
        may be forwarded before its change gets here.
        """
        key, number = QueueKey(place.topic.tenant_id, *place.queue), place.number
        recorded = bool(self._forwarded is not None and await self._forwarded.find(key, [number]))
        if recorded and due_us is None:
            raise _released(place.text)
        known = await take_turn(
            self._writer,
            self._store,
            place.group,
            place.queue,
            number,
            was_made=partial(_was_made, place.topic),
        )
        if known is None:
            if recorded:  # longer ago than its name is remembered
                raise _released(place.text)
            return
        if self._forwarded is not None and not recorded:
            # The scheduler that made the copy does the same, if it is still alive: the message as
            # it is now must not be copied some other day.
            partition = QueueId.unpack(known.queue).partition
            await self._forwarded.record(key, [Forwarded(number, partition, known.position)])
            await self._store.discard(place.group, place.queue, [number])
        if due_us is None or known.log_time_us < due_us:
            raise _released(place.text)

    async def _require_discarded(self, place: StagedMessagePlace) -> None:
        """Raise 409 or 404 unless the message was cancelled before; nothing was changed now."""
        try:
            found = await self._store.locate(place.group, place.queue, place.number)
            if found.state == "truncated":
                ends = await self._store.offsets(place.group, place.queue)
                if place.number >= ends.stage_end:
                    raise not_found("message", place.text)
        except QueueNotFound:
            raise not_found("message", place.text) from None
        if found.state != "discarded":
            raise _released(place.text)
        await self._confirm(place)


def _was_made(topic: Topic, queue: QueueId) -> bool:
    """Return whether a queue was made before the topic was read. An old copy of the topic may say
    that it was not.
    """
    generations = topic.generations(queue.partition, queue.lane)
    return bool(generations) and queue.generation <= generations[-1].generation


def _delay(body: bytes, now_us: int) -> Delay | None:
    try:
        asked = _reschedule.decode(body)
    except msgspec.ValidationError as error:
        raise invalid("The body does not fit.", [field_error(str(error))]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(error) from error
    if asked.deliver_at is not UNSET:
        return delays.at(DELIVER_AT, asked.deliver_at, now_us)
    assert asked.delay_seconds is not UNSET
    return delays.after("delay_seconds", asked.delay_seconds)


def _released(text: str) -> Problem:
    return Problem.of(
        "already-released",
        f"The message {text} waits no longer: it is published, and cannot be changed.",
    )
