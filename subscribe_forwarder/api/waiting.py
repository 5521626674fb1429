"""A message that is not published: it waits for its time, or it was cancelled."""

from __future__ import annotations

from edge.message_id import MessageId
from metadata.types import Topic
from store_nodes import record_batch
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId
from subscribe_forwarder.delivery.reading.render import PartitionRenderer, time_json
from subscribe_forwarder.delivery.reading.staged import Nowhere

_STATES = {Nowhere.STAGED: b"scheduled", Nowhere.DISCARDED: b"cancelled"}


async def waiting(
    store: StoreClient, topic: Topic, wanted: MessageId, fate: Nowhere
) -> bytes | None:
    """Return the JSON of a delayed or cancelled message; None for one that is neither.

    The content of a cancelled message may be gone. Raises StoreError.
    """
    state = _STATES.get(fate)
    for one in topic.generations(wanted.partition, wanted.lane):
        if state is not None and one.generation == wanted.generation:
            queue = QueueId(topic.uid, one.number, one.lane, one.generation)
            try:
                members = await _members(store, one.group, queue, wanted)
            except QueueNotFound:
                return None
            return b'{"state":"%b",%b}' % (state, members)
    return None


async def due_us(store: StoreClient, topic: Topic, wanted: MessageId) -> int | None:
    """Return when a delayed message is published, in µs of log time; None where that is unknown.

    Raises StoreError.
    """
    for one in topic.generations(wanted.partition, wanted.lane):
        if one.generation == wanted.generation:
            queue = QueueId(topic.uid, one.number, one.lane, one.generation)
            return await _due_us(store, one.group, queue, wanted.stage_number)
    return None


async def _due_us(store: StoreClient, group: int, queue: QueueId, number: int) -> int | None:
    page = await store.staged(group, queue, number - 1, 1)
    return next((one.due_us for one in page.staged if one.stage_number == number), None)


async def _members(store: StoreClient, group: int, queue: QueueId, wanted: MessageId) -> bytes:
    number = wanted.stage_number
    text = str(wanted).encode("ascii")
    due_us = await _due_us(store, group, queue, number)
    for entry in await store.fetch_staged(group, queue, number, 1):
        if not entry.base_stage <= number < entry.base_stage + entry.messages:
            continue
        message = record_batch.decode(entry.batch)[number - entry.base_stage]
        if due_us is not None:
            message.deliver_at_us = due_us  # it may have been rescheduled
        renderer = PartitionRenderer(queue.topic_uid, queue.partition, lane=queue.lane)
        shared = renderer.fragment(message, 0, b"null", text).removesuffix(b"0")
        return b'%bnull,"accepted_time":%b' % (shared, time_json(entry.log_time_us))
    return b'"message_id":"%b","publish_time":null,"partition":%d,"offset":null' % (
        text,
        queue.partition,
    )
