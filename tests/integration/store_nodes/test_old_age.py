"""Store-node processes whose logs grow old: settled, truncated, restarted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from store_nodes.client import StoreClient
from store_nodes.errors import StoreError
from store_nodes.queue_id import QueueId
from tests.integration.store_nodes.store_cluster import ready_client
from tests.integration.store_nodes.test_storage import MIB, batch, new_queue, read_texts

SEGMENT_BYTES = 256 * 1024


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    async with ChaosCluster(tmp_path, store_only=True, segment_bytes=SEGMENT_BYTES) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


async def fill(client: StoreClient, queues: list[QueueId], count: int) -> None:
    for queue in queues:
        appender = client.appender(0, queue)
        for start in range(0, count, 50):
            numbers = range(start, min(count, start + 50))
            futures = [appender.append(batch(str(n), 4000), 1, timeout_s=30) for n in numbers]
            await asyncio.gather(*futures)


async def until_compacted(cluster: ChaosCluster, client: StoreClient, upto: int) -> None:
    """Ask for checkpoints until every node's raw log begins at segment `upto` or later."""
    async with asyncio.timeout(120):
        while True:
            await client.take_checkpoint(0)
            await asyncio.sleep(1.0)
            statuses = await cluster.statuses()
            if all(status["storage"]["first_segment"] >= upto for status in statuses.values()):
                return


def wal_bytes(cluster: ChaosCluster, node: int) -> int:
    """Return the bytes of the node's segments, raw and settled, without the preallocated
    last one.
    """
    directory = cluster.node_dirs[node] / "wal"
    total = 0
    for path in [*directory.glob("*.wal"), *directory.glob("*.settled")]:
        with contextlib.suppress(FileNotFoundError):  # It was removed meanwhile.
            total += path.stat().st_size
    return total


async def test_a_compacted_log_is_read_truncated_and_restarted(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queues = [await new_queue(client) for _ in range(4)]
    await fill(client, queues, 250)
    before = {node: wal_bytes(cluster, node) for node in NODES}
    assert min(before.values()) > 3 * MIB
    await until_compacted(cluster, client, 6)
    for queue in queues[:2]:
        assert await read_texts(client, queue) == [str(n) for n in range(250)]
    for queue in queues:
        await client.truncate(0, queue, 245, keep=(7,))
    async with asyncio.timeout(120):
        while any(wal_bytes(cluster, node) > 2 * MIB for node in NODES):
            with contextlib.suppress(StoreError):  # a busy machine elects anew at times
                await client.take_checkpoint(0)
                await fill(client, queues[:1], 10)
                end = (await client.offsets(0, queues[0])).end
                await client.truncate(0, queues[0], end - 5, keep=(7,))
            await asyncio.sleep(0.5)
    for node in NODES:
        cluster.kill_node(node)
    for node in NODES:
        cluster.start_node(node)
    await client.wait_ready()
    await cluster.until_replicas_agree()
    for queue in queues[1:]:
        assert await read_texts(client, queue) == [str(n) for n in range(245, 250)]
        kept = await client.fetch(0, queue, 7, MIB)
        assert [entry.base_offset for entry in kept.entries] == [7]
    assert not any(status["damaged"] for status in (await cluster.statuses()).values())
