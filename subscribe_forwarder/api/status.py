"""What people see of a subscription's progress and of one message's fate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from metadata.types import CursorState, Partition, SealedPartition, Topic
from store_nodes.errors import QueueNotFound, QueueTruncated
from store_nodes.queue_id import QueueId
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.ports import Catalog, Cursors, Store
from subscribe_forwarder.reading.batch import Batch
from subscribe_forwarder.reading.render import PartitionRenderer
from subscribe_forwarder.reading.staged import Where
from subscribe_forwarder.state.lanes import Lane


class Sources(Protocol):
    """What a message's fate is told from; a SubscribeForwarder has it."""

    @property
    def store(self) -> Store: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def cursors(self) -> Cursors: ...
    def reader(self, subscription_uid: bytes, place: Lane) -> Reader | None: ...


def generation_of(topic: Topic, where: Where) -> Partition | SealedPartition | None:
    """The generation of the lane that holds the offset; of what is below all, the oldest."""
    generations = topic.generations(*where.place)
    holding = [generation for generation in generations if generation.base <= where.offset]
    return holding[-1] if holding else next(iter(generations), None)


async def message(store: Store, topic: Topic, where: Where) -> bytes | None:
    """The members of a stored message's JSON; None when it is not there (any more).

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
    sources: Sources, topic: Topic, where: Where
) -> dict[str, dict[str, Any]] | None:
    """By subscription name; None for a message that never was. Raises StoreError, MetadataError."""
    offset, place = where.offset, where.place
    found = generation_of(topic, where)
    if found is None:
        return None
    of_topic = await sources.cursors.of_topic(topic.tenant_id, topic.uid)
    rows = {
        row.key.subscription_uid: row
        for row in of_topic
        if (row.key.partition, row.key.lane) == place
    }
    if not any(offset < row.read_to for row in rows.values()):
        queue = QueueId(topic.uid, found.number, found.lane, found.generation)
        try:
            end = (await sources.store.offsets(found.group, queue)).end
        except QueueNotFound:
            return None
        if offset >= end:
            return None
    states: dict[str, dict[str, Any]] = {}
    for subscription in await sources.catalog.subscriptions_of(topic.tenant_id, topic.uid):
        row = rows.get(subscription.uid)
        reader = sources.reader(subscription.uid, place)
        state = None if row is None else ack_state(row, reader, offset)
        if state is not None:
            states[subscription.name] = state
    return states


def backlog(hub: Hub) -> dict[str, Any]:
    """The JSON of `GET /subscriptions/{name}/backlog`."""
    readers = sorted(hub.readers.items())
    lanes = any(place.lane for place, _ in readers)
    return {
        "messages": sum(reader.backlog for _, reader in readers),
        "leased": sum(reader.ledger.leased for _, reader in readers),
        "waiting_redelivery": sum(reader.ledger.waiting for _, reader in readers),
        "waiting_pulls": hub.waiting,
        "paused": hub.paused_reason(),
        "partitions": [_partition(place, reader, lanes) for place, reader in readers],
    }


def _partition(place: Lane, reader: Reader, lanes: bool) -> dict[str, Any]:
    cursor, counters = reader.cursor, reader.cursor.counters()
    failure = reader.tail.failure
    return {
        "partition": place.partition,
        **({"lane": place.lane} if lanes else {}),
        "messages": reader.backlog,
        "start": cursor.start,
        "floor": cursor.floor,
        "read_to": cursor.read_to,
        "end": reader.tail.end,
        "pending": cursor.pending(),
        "acked_ranges": cursor.range_count,
        "acked": counters.acked,
        "filtered": counters.filtered,
        "skipped": counters.skipped,
        "expired": counters.expired,
        "dead_lettered": counters.dead_lettered,
        "failure": None if failure is None else type(failure).__name__,
    }


def ack_state(row: CursorState, reader: Reader | None, offset: int) -> dict[str, Any] | None:
    """The state of one offset for one subscription: what is committed, and the lease if it is ours.

    None below the subscription's start. A settled offset is `acked` unless the cursor settled
    every one of its offsets by expiry.
    """
    if offset < row.start:
        return None
    if offset < row.floor or _inside(row.acked, offset):
        counters = row.counters
        only_expired = counters.expired and counters.expired == counters.total()
        return {"state": "expired" if only_expired else "acked"}
    if reader is None or not (
        reader.ledger.grant_of(offset) is not None or reader.ledger.is_waiting(offset)
    ):
        return {"state": "pending", "attempts": 0}
    leased = reader.ledger.grant_of(offset) is not None
    attempts = reader.ledger.attempt(offset) - (0 if leased else 1)
    return {"state": "leased" if leased else "pending", "attempts": attempts}


def _inside(ranges: Iterable[tuple[int, int]], offset: int) -> bool:
    return any(low <= offset < high for low, high in ranges)
