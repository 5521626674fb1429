"""Everything a topic holds, read from the store nodes without the forwarders."""

from __future__ import annotations

import asyncio

from harness.cluster import ChaosCluster
from store_nodes import record_batch
from store_nodes.client import StoreClient
from store_nodes.client.reads import Entry
from store_nodes.queue_id import QueueId
from tests.chaos.history import Stored
from tests.chaos.senders import payload_of

FETCH_BYTES = 4 * 1024 * 1024
ANSWER_S = 5.0
"""Seconds to wait for one answer, amid faults."""
CALM_ANSWER_S = 60.0
"""Seconds to wait for one answer once faults are over: this read judges what the log has, not how
soon a busy machine answers.
"""


async def queues_of(client: StoreClient, topic_uid: bytes) -> dict[int, tuple[int, QueueId]]:
    """Return partition → (group, queue) of its newest generation."""
    found: dict[int, tuple[int, QueueId]] = {}
    for group, queue in await generations_of(client, topic_uid):
        found[queue.partition] = (group, queue)
    return found


async def generations_of(
    client: StoreClient, topic_uid: bytes, *, answer_s: float = ANSWER_S
) -> list[tuple[int, QueueId]]:
    """(group, queue) of every queue of the topic; those of a partition from the oldest on."""
    found: list[tuple[int, QueueId]] = []
    for group in client.groups:
        for info in await client.queues(group, timeout_s=answer_s):
            queue = QueueId.unpack(info.queue)
            if queue.topic_uid == topic_uid:
                found.append((group, queue))
    return sorted(found, key=lambda place: place[1])


async def read_queue(
    client: StoreClient, group: int, queue: QueueId, *, answer_s: float = ANSWER_S
) -> list[Stored]:
    """Read a queue from its first offset to its confirmed end."""
    offsets = await client.offsets(group, queue, timeout_s=answer_s)
    stored: list[Stored] = []
    at = offsets.first
    while at < offsets.end:
        fetched = await client.fetch(
            group, queue, at, FETCH_BYTES, min_end=offsets.end, timeout_s=answer_s
        )
        assert fetched.entries, f"{queue}: nothing at {at}, the end is {offsets.end}"
        for entry in fetched.entries:
            stored += [message for message in messages_of(entry) if message.offset >= at]
        at = stored[-1].offset + 1
        await asyncio.sleep(0)
    return stored


def messages_of(entry: Entry) -> list[Stored]:
    """Return each message of a fetched entry; of a staged batch those that were released here."""
    batch = record_batch.decode(entry.batch)
    chosen = range(len(batch)) if entry.indices is None else entry.indices
    return [
        Stored(
            entry.base_offset + place,
            payload_of(batch[index].data),
            batch[index].key,
            entry.log_time_us,
        )
        for place, index in enumerate(chosen)
    ]


async def read_topic(cluster: ChaosCluster, topic_uid: bytes) -> dict[int, list[Stored]]:
    """Return partition → its messages, over all its queue generations."""
    client = cluster.store_client()
    await client.start()
    try:
        await client.wait_ready()
        logs: dict[int, list[Stored]] = {}
        for group, queue in await generations_of(client, topic_uid, answer_s=CALM_ANSWER_S):
            log = await read_queue(client, group, queue, answer_s=CALM_ANSWER_S)
            logs.setdefault(queue.partition, []).extend(log)
        return logs
    finally:
        await client.close()
