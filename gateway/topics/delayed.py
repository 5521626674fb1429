"""`GET /topics/{topic}/delayed`: the messages that wait for their time.

They are listed queue by queue, of each in the order in which they were accepted, as the store has
them now. A page is as large as is asked for, or smaller where it would mean to read much: the
bodies come with the keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from edge import message_id
from edge.asgi import Receive, Route, Scope, Send, path_param, respond, tenant_of
from edge.parameters import Query
from edge.problem import FieldError, invalid
from edge.times import rfc3339
from gateway.topics.placement import queue_of
from metadata.catalog import Catalog
from metadata.types import Partition, SealedPartition, Topic
from openapi.common import PAGE_SIZE
from openapi.topics import OPERATIONS, DelayedMessage, DelayedPage
from store_nodes import record_batch
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import StagedInfo

FETCH_BYTES = 1024 * 1024
MAX_FETCHED_BYTES = 16 * 1024 * 1024
"""Read for one page; a batch is read whole."""
_TOKEN = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,18})")

Queue = Partition | SealedPartition


class StagedPosition(NamedTuple):
    """The start of the next page: a queue of the topic, and the first number of it to look at."""

    partition: int
    lane: int
    generation: int
    at: int

    def __str__(self) -> str:
        return ".".join(map(str, self))


class DelayedRoutes:
    """The handler."""

    def __init__(self, catalog: Catalog, store: StoreClient) -> None:
        self._catalog = catalog
        self._store = store

    def routes(self) -> list[Route]:
        return [Route(OPERATIONS["listDelayedMessages"], self.page)]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        size = query.integer(PAGE_SIZE)
        start = _place_of(query.text("page_token"))
        topic = await self._catalog.topic(tenant_of(scope), path_param(scope, "topic"))
        found, then = await delayed_page(self._store, topic, size, start)
        listing = DelayedPage(found, None if then is None else str(then))
        await respond(send, 200, msgspec.json.encode(listing))


async def delayed_page(
    store: StoreClient, topic: Topic, size: int, start: StagedPosition | None = None
) -> tuple[list[DelayedMessage], StagedPosition | None]:
    """Return the messages of one page, and the start of the next one; None after the last."""
    found: list[DelayedMessage] = []
    left_bytes = MAX_FETCHED_BYTES
    for queue in _queues(topic, start):
        at = start.at if start is not None and start[:3] == _order(queue) else 0
        while True:
            want = size - len(found)
            if want <= 0 or left_bytes <= 0:
                return found, StagedPosition(*_order(queue), at)
            name = queue_of(topic.uid, queue)
            try:
                listed = (await store.staged(queue.group, name, at - 1, want)).staged
                waiting = [info for info in listed if info.due_us is not None]
                messages, read_bytes, to = await _read(store, queue, name, waiting, left_bytes)
            except QueueNotFound:  # a sealed one in which nothing was left
                break
            left_bytes -= read_bytes
            for info in waiting:
                if info.stage_number in messages:
                    found.append(_shown(topic, queue, info, messages[info.stage_number]))
            if to is not None:
                return found, StagedPosition(*_order(queue), to)
            if len(listed) < want:
                break
            at = listed[-1].stage_number + 1
    return found, None


async def _read(
    store: StoreClient,
    queue: Queue,
    name: QueueId,
    waiting: Sequence[StagedInfo],
    most_bytes: int,
) -> tuple[dict[int, Message], int, int | None]:
    """Return the messages by number, the bytes read for them, and the number at which to continue
    if they were too many for one reading.

    A message that was published or cancelled meanwhile is left out.
    """
    messages: dict[int, Message] = {}
    read_bytes = 0
    wanted = {info.stage_number for info in waiting}
    at, last = min(wanted, default=0), max(wanted, default=-1)
    while at <= last:
        if read_bytes >= most_bytes:
            return messages, read_bytes, at
        entries = await store.fetch_staged(queue.group, name, at, FETCH_BYTES)
        if not entries:
            break
        for entry in entries:
            read_bytes += len(entry.batch)
            for number, message in enumerate(record_batch.decode(entry.batch), entry.base_stage):
                if number in wanted:
                    messages[number] = message
        end = entries[-1].base_stage + entries[-1].messages
        at = min((number for number in wanted if number >= end), default=last + 1)
    return messages, read_bytes, None


def _shown(topic: Topic, queue: Queue, info: StagedInfo, message: Message) -> DelayedMessage:
    name = message_id.staged(
        topic.uid, queue.number, queue.generation, info.stage_number, queue.lane
    )
    assert info.due_us is not None
    return DelayedMessage(
        message_id=str(name),
        partition=queue.number,
        key=message.key,
        scheduled_for=rfc3339(info.due_us),
        accepted_time=rfc3339(info.log_time_us),
        content_type=message.content_type,
        size_bytes=len(message.data),
        priority=message.priority,
    )


def _queues(topic: Topic, start: StagedPosition | None) -> list[Queue]:
    """Return all queues that a message may wait in, also sealed ones, from the one of
    `start` on.
    """
    queues: list[Queue] = [*topic.partitions, *topic.sealed]
    queues.sort(key=_order)
    if start is None:
        return queues
    return [queue for queue in queues if _order(queue) >= start[:3]]


def _order(queue: Queue) -> tuple[int, int, int]:
    return queue.number, queue.lane, queue.generation


def _place_of(token: str | None) -> StagedPosition | None:
    """Return the place that a token names; raise 400 for a text that is no token of this
    listing.
    """
    if not token:
        return None
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        errors = [FieldError("page_token", "one that a page of this listing gave")]
        raise invalid("The query parameter page_token does not fit.", errors, status=400)
    return StagedPosition(*map(int, parts.groups()))
