"""Everything a topic holds, read from the store nodes without the forwarders."""

from __future__ import annotations

import asyncio

from store_nodes import record_batch
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from tests.chaos.cluster import ChaosCluster
from tests.chaos.history import Stored
from tests.chaos.senders import payload_of

FETCH_BYTES = 4 * 1024 * 1024


async def queues_of(client: StoreClient, topic_uid: bytes) -> dict[int, tuple[int, QueueId]]:
    """Partition → (group, queue)."""
    found: dict[int, tuple[int, QueueId]] = {}
    for group in client.groups:
        for info in await client.queues(group):
            queue = QueueId.unpack(info.queue)
            if queue.topic_uid == topic_uid:
                found[queue.partition] = (group, queue)
    return found


async def read_queue(client: StoreClient, group: int, queue: QueueId) -> list[Stored]:
    """From its first offset to its confirmed end."""
    offsets = await client.offsets(group, queue)
    stored: list[Stored] = []
    at = offsets.first
    while at < offsets.end:
        fetched = await client.fetch(group, queue, at, FETCH_BYTES, min_end=offsets.end)
        assert fetched.entries, f"{queue}: nothing at {at}, the end is {offsets.end}"
        for entry in fetched.entries:
            for index, message in enumerate(record_batch.decode(entry.batch)):
                offset = entry.base_offset + index
                if offset >= at:
                    stored.append(Stored(offset, payload_of(message.data), message.key))
        at = stored[-1].offset + 1
        await asyncio.sleep(0)
    return stored


async def read_topic(cluster: ChaosCluster, topic_uid: bytes) -> dict[int, list[Stored]]:
    """Partition → what it holds."""
    client = cluster.store_client()
    await client.start()
    try:
        await client.wait_ready()
        queues = await queues_of(client, topic_uid)
        return {
            partition: await read_queue(client, group, queue)
            for partition, (group, queue) in queues.items()
        }
    finally:
        await client.close()
