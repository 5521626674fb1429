"""One cluster of three store-node processes for all tests of a module, and what they share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from harness.cluster import NODES, ChaosCluster
from store_nodes.client import StoreClient
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode

MIB = 1024 * 1024


@contextmanager
def running_store(root: Path) -> Iterator[ChaosCluster]:
    """Yield three nodes that all tests of a module share; each test has an event loop of
    its own.
    """
    cluster = ChaosCluster(root, store_only=True)
    try:
        asyncio.run(cluster.start())
        yield cluster
    finally:
        cluster.stop()


@asynccontextmanager
async def ready_client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    """Yield a connected client once every group has a leader.

    First it starts a node that a test left down.
    """
    for node in NODES:
        if not cluster.is_running(node):
            cluster.start_node(node)
    async with cluster.ready_client() as client:
        yield client


def batch(*texts: str) -> bytes:
    return encode([Message(text.encode()) for text in texts], 1)


def ids(*names: str, body: int = 1) -> bytes:
    """Dedup entries: the first message of the batch has the first name, and so on."""
    return b"".join(
        DEDUP_ENTRY.pack(index, name.encode().ljust(16), body) for index, name in enumerate(names)
    )


async def new_queue(client: StoreClient, group: int = 0) -> QueueId:
    queue = QueueId(os.urandom(16), 0)
    await client.create(group, queue, 0, b"test")
    return queue


async def read_texts(
    client: StoreClient, queue: QueueId, group: int = 0, node: int | None = None
) -> list[str]:
    """Return the texts that a reader sees from the first offset on.

    Released messages are sliced out of their batch.
    """
    texts: list[str] = []
    offset = (await client.offsets(group, queue, timeout_s=30)).first
    while True:
        fetched = await client.fetch(group, queue, offset, MIB, node=node, timeout_s=30)
        if not fetched.entries:
            return texts
        for entry in fetched.entries:
            messages = decode(entry.batch)
            if entry.indices is not None:
                messages = [messages[index] for index in entry.indices]
            assert entry.base_offset <= offset
            texts += [message.data.decode() for message in messages[offset - entry.base_offset :]]
            offset = entry.base_offset + len(messages)
