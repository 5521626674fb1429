"""The newest messages of a topic, to try a rule on before it takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from edge import message_id
from edge.message_id import MessageId
from gateway.topics.placement import queue_of
from metadata.types import Partition, Topic
from store_nodes import record_batch
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, QueueTruncated
from store_nodes.record_batch import Message

FETCH_BYTES = 1024 * 1024
MAX_FETCHED_BYTES = 16 * 1024 * 1024
"""Bytes that one preview fetches, over all partitions."""


class Recent(NamedTuple):
    """A stored message and its name."""

    message_id: str
    partition: int
    offset: int
    message: Message


async def recent_messages(store: StoreClient, topic: Topic, count: int) -> list[Recent]:
    """About the newest `count`, the same number from each partition and lane as far as there are,
    of those stored since the partition was last moved. Raises StoreError."""
    share = -(-count // len(topic.partitions))
    most_bytes = MAX_FETCHED_BYTES // len(topic.partitions)
    found = await asyncio.gather(
        *(_of_partition(store, topic, each, share, most_bytes) for each in topic.partitions)
    )
    return [one for some in found for one in some][:count]


async def _of_partition(
    store: StoreClient, topic: Topic, partition: Partition, count: int, most_bytes: int
) -> Sequence[Recent]:
    queue = queue_of(topic.uid, partition)
    found: list[Recent] = []
    with suppress(QueueNotFound, QueueTruncated):  # deleted, or trimmed while we read
        offsets = await store.offsets(partition.group, queue)
        at = max(offsets.first, offsets.end - count)
        while at < offsets.end and most_bytes > 0:
            page = await store.fetch(partition.group, queue, at, min(FETCH_BYTES, most_bytes))
            if not page.entries:
                break
            for entry in page.entries:
                most_bytes -= len(entry.batch)
                messages = record_batch.decode(entry.batch)
                if entry.indices is not None:
                    messages = [messages[index] for index in entry.indices]
                for offset, message in enumerate(messages, entry.base_offset):
                    if at <= offset < offsets.end:
                        found.append(_recent(topic, partition, offset, message))
                at = max(at, entry.base_offset + len(messages))
    return found


def _recent(topic: Topic, partition: Partition, offset: int, message: Message) -> Recent:
    name = MessageId(message_id.FORM_OFFSET, topic.uid, partition.number, partition.lane, offset)
    return Recent(str(name), partition.number, offset, message)
