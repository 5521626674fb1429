"""The views of a subscription's progress and of the ack state of one message."""

from __future__ import annotations

from msgspec import UNSET

from metadata.delivery.ack_history import AckHistoryRepository
from metadata.types import Partition, SealedPartition, Topic
from openapi.push import PushStatus
from openapi.subscriptions import Backlog, PartitionBacklog
from openapi.topics import AckState
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, QueueTruncated
from store_nodes.queue_id import QueueId
from subscribe_forwarder.api.ack_state import ack_state
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.delivery.reading.staged import Where
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.forwarder import SubscribeForwarder


def generation_of(topic: Topic, where: Where) -> Partition | SealedPartition | None:
    """Return the generation of the lane that holds the offset; the oldest for an offset
    below all.
    """
    generations = topic.generations(*where.place)
    holding = [generation for generation in generations if generation.base <= where.offset]
    return holding[-1] if holding else next(iter(generations), None)


async def message(store: StoreClient, topic: Topic, where: Where) -> bytes | None:
    """Return the members of a stored message's JSON; None when it is not there (any more).

    Needs no ownership. Raises StoreError.
    """
    found = generation_of(topic, where)
    if found is None:
        return None
    queue = QueueId(topic.uid, found.number, found.lane, found.generation)
    offset = where.offset
    try:
        fetched = await store.fetch(found.group, queue, offset, 1, min_end=offset + 1)
    except (QueueTruncated, QueueNotFound):
        return None
    for entry in fetched.entries:
        batch = Batch(entry, found.generation)
        if batch.base <= offset < batch.end:
            batch.messages()
            return batch.fragment(
                offset - batch.base, PartitionRenderer(topic.uid, where.partition, lane=where.lane)
            )
    return None


async def ack_states(
    forwarder: SubscribeForwarder, history: AckHistoryRepository, topic: Topic, where: Where
) -> dict[str, AckState] | None:
    """Return the states by subscription name; None for a message that never existed.

    Raises StoreError, MetadataError.
    """
    found = generation_of(topic, where)
    if found is None:
        return None
    of_message = await history.message_states(
        topic.tenant_id, topic.uid, *where.place, where.offset
    )
    by_uid = {message.cursor.key.subscription_uid: message for message in of_message}
    if not any(where.offset < message.cursor.read_to for message in of_message):
        queue = QueueId(topic.uid, found.number, found.lane, found.generation)
        try:
            end = (await forwarder.history.offsets(found.group, queue)).end
        except QueueNotFound:
            return None
        if where.offset >= end:
            return None
    states: dict[str, AckState] = {}
    for subscription in await forwarder.catalog.subscriptions_of(topic.tenant_id, topic.uid):
        message = by_uid.get(subscription.uid)
        reader = forwarder.reader(subscription.uid, where.place)
        state = None if message is None else ack_state(message, reader, where.offset)
        if state is not None:
            states[subscription.name] = state
    return states


def backlog(hub: Hub, push: PushStatus | None = None) -> Backlog:
    """Return the backlog of a subscription as this process sees it; `push`: how it is pushed, if
    it is.
    """
    readers = sorted(hub.readers.items())
    lanes = any(place.lane for place, _ in readers)
    return Backlog(
        messages=sum(reader.backlog for _, reader in readers),
        leased=sum(reader.ledger.leases.leased for _, reader in readers),
        waiting_redelivery=sum(reader.ledger.leases.waiting for _, reader in readers),
        waiting_pulls=hub.waiting_pulls,
        streams=len(hub.streams),
        paused=hub.paused_reason(),
        throttles=hub.throttles(),
        forwarders=1,
        push=push,
        partitions=[_partition(place, reader, lanes) for place, reader in readers],
    )


def _partition(place: Lane, reader: Reader, lanes: bool) -> PartitionBacklog:
    cursor, counters = reader.cursor, reader.cursor.counters()
    failure = reader.tail.failure
    return PartitionBacklog(
        partition=place.partition,
        lane=place.lane if lanes else UNSET,
        messages=reader.backlog,
        start=cursor.start,
        floor=cursor.floor,
        read_to=cursor.read_to,
        end=reader.tail.end,
        pending=cursor.pending(),
        exceptions=cursor.exceptions,
        acked_ranges=cursor.range_count,
        acked=counters.acked,
        filtered=counters.filtered,
        skipped=counters.skipped,
        expired=counters.expired,
        dead_lettered=counters.dead_lettered,
        failure=None if failure is None else type(failure).__name__,
    )
