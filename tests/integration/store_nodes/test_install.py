"""A node that is behind by more than its peers keep: machine and live batches, then the log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.cluster import ChaosCluster
from store_nodes.client import StageExtras, StoreClient
from store_nodes.errors import DedupKnown, QueueNotFound, QueueTruncated
from store_nodes.queue_id import QueueId
from tests.chaos.test_damage import events, segments, settled
from tests.integration.store_nodes.store_cluster import (
    batch,
    ids,
    new_queue,
    read_texts,
    ready_client,
)

MIB = 1024 * 1024
PADDING = "x" * 4000
LAG_CAP = {"PACKETBOAT_STORE_LAG_CAP_BYTES": str(2 * MIB)}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    """Yield a cluster with small segments, whose peers do not wait long for a node that is
    behind.
    """
    cluster = ChaosCluster(tmp_path, store_only=True, segment_bytes=MIB, node_settings=LAG_CAP)
    async with cluster:
        yield cluster


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


async def fill(client: StoreClient, queue: QueueId, texts: range, group: int = 0) -> None:
    appender = client.appender(group, queue)
    for start in range(texts.start, texts.stop, 32):
        chunk = range(start, min(texts.stop, start + 32))
        await asyncio.gather(
            *(appender.append(batch(f"{n} {PADDING}"), 1, timeout_s=30) for n in chunk)
        )


async def until_forgotten(cluster: ChaosCluster, client: StoreClient) -> None:
    """Wait until the running nodes have deleted the first segments of their logs, also from
    memory.
    """
    async with asyncio.timeout(30):
        while any(
            segments(cluster.node_dirs[node])[0].stem == f"{1:016x}"
            or not settled(cluster.node_dirs[node])
            for node in (1, 2)
        ):
            for group in client.groups:
                await client.take_checkpoint(group, timeout_s=20)
            await asyncio.sleep(0.5)
    for node in (1, 2):
        cluster.kill_node(node)
    for node in (1, 2):
        cluster.start_node(node)
    await client.wait_ready()


async def test_a_node_behind_by_more_than_peers_keep_is_brought_up_to_date(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue, cut, gone = [await new_queue(client) for _ in range(3)]
    delayed = await new_queue(client, 1)
    await fill(client, queue, range(100))
    stager = client.appender(1, delayed)
    await stager.append(batch("early", "late"), 2, StageExtras(None), timeout_s=30)
    await cluster.until_replicas_agree()
    cluster.kill_node(3)
    await fill(client, queue, range(100, 1500))
    await fill(client, cut, range(300))
    await client.truncate(0, cut, 250, keep=(7, 100))
    await fill(client, gone, range(50))
    await client.seal(0, gone)
    await client.delete(0, gone)
    known = client.appender(0, queue)
    await known.append(batch("known"), 1, dedup=ids("known"), timeout_s=30)
    await stager.append(batch("a", "b", "c"), 3, StageExtras(None), timeout_s=30)
    assert await client.release(1, delayed, [1, 3]) == [0, 1]
    await client.discard(1, delayed, [4])
    await until_forgotten(cluster, client)
    cluster.start_node(3)
    await cluster.until_replicas_agree()
    assert events(cluster, 3, "installed")
    assert events(cluster, 3, "store node starts again")

    # Its log equals the others', read from it alone.
    assert [text.split()[0] for text in await read_texts(client, queue, node=3)] == [
        *map(str, range(1500)), "known",
    ]  # fmt: skip
    assert [text.split()[0] for text in await read_texts(client, cut, node=3)] == [
        *map(str, range(250, 300))
    ]
    for kept in (7, 100):
        (entry,) = (await client.fetch(0, cut, kept, MIB, node=3)).entries
        assert entry.base_offset == kept
    with pytest.raises(QueueTruncated):
        await client.fetch(0, cut, 8, MIB, node=3)
    assert await read_texts(client, delayed, 1, node=3) == ["late", "b"]
    staged = await client.fetch_staged(1, delayed, 0, MIB, node=3)
    assert [(one.base_stage, one.messages) for one in staged] == [(0, 2), (2, 3)]

    # It counts, leads, remembers ids and staged messages, also after another restart.
    cluster.kill_node(3)
    cluster.start_node(3)
    await cluster.until_replicas_agree()
    cluster.kill_node(1)
    await client.wait_ready()
    with pytest.raises(DedupKnown):
        await client.appender(0, queue).append(batch("known"), 1, dedup=ids("known"), timeout_s=30)
    assert await client.release(1, delayed, [0, 1, 2, 4], timeout_s=20) == [2, 0, 3, None]
    await fill(client, queue, range(1501, 1510))


async def test_an_install_that_is_killed_again_and_again_comes_to_its_end(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    """The node continues with the part that it has fetched, and its peers lose nothing by it."""
    queue = await new_queue(client)
    cluster.kill_node(3)
    await fill(client, queue, range(2000))
    await until_forgotten(cluster, client)
    rng = random.Random(11)
    for _ in range(4):
        cluster.start_node(3, {"PACKETBOAT_STORE_COPY_BYTES_PER_S": str(2 * MIB)})
        await cluster.until_up(3)
        await asyncio.sleep(rng.uniform(0.3, 2.0))
        cluster.kill_node(3)
    cluster.start_node(3)
    await cluster.until_replicas_agree()
    texts = await read_texts(client, queue, node=3)
    assert [text.split()[0] for text in texts] == [*map(str, range(2000))]
    copied = [int(one["copied_bytes"]) for one in events(cluster, 3, "install")]
    assert copied
    assert copied[-1] < 2000 * 4000, "the last attempt fetched all of it again"


async def test_an_install_goes_on_while_it_is_published(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue = await new_queue(client)
    cluster.kill_node(3)
    await fill(client, queue, range(2000))
    await until_forgotten(cluster, client)
    publishing = asyncio.ensure_future(fill(client, queue, range(2000, 3000)))
    cluster.start_node(3)
    await publishing
    await cluster.until_replicas_agree()
    texts = await read_texts(client, queue, node=3)
    assert [text.split()[0] for text in texts] == [*map(str, range(3000))]


async def test_an_install_whose_source_dies_never_takes_the_node_back(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    """Nodes 1 and 3 both need an install, node 3 is further behind. Node 2 dies when node 1 begins:
    what node 3 has would take it back behind what it applied and others rely on."""
    padding = "x" * 16_000

    async def add(numbers: range) -> None:
        appender = client.appender(0, queue)
        for start in range(numbers.start, numbers.stop, 16):
            chunk = range(start, min(numbers.stop, start + 16))
            await asyncio.gather(
                *(appender.append(batch(f"{n} {padding}"), 1, timeout_s=30) for n in chunk)
            )

    queue = await new_queue(client)
    await add(range(20))
    await cluster.until_replicas_agree()
    cluster.kill_node(3)
    await add(range(20, 400))
    await until_forgotten(cluster, client)
    await add(range(400, 410))
    cluster.kill_node(1)
    # Its install takes long; it votes meanwhile.
    cluster.start_node(3, {"PACKETBOAT_STORE_COPY_BYTES_PER_S": "1000"})
    await cluster.until_up(3)
    await add(range(410, 900))
    before = segments(cluster.node_dirs[2])[0].stem
    async with asyncio.timeout(60):
        while segments(cluster.node_dirs[2])[0].stem == before:
            for group in client.groups:
                await client.take_checkpoint(group, timeout_s=20)
            await asyncio.sleep(0.5)
    cluster.kill_node(2)
    cluster.start_node(2)
    await client.wait_ready()
    assert len(await read_texts(client, queue, node=2)) == 900, "all of it was acknowledged"
    known = len(events(cluster, 1, "a checkpoint is needed"))
    cluster.start_node(1)
    async with asyncio.timeout(60):
        while len(events(cluster, 1, "a checkpoint is needed")) == known:
            await asyncio.sleep(0.01)
    cluster.kill_node(2)
    ends = ("install failed", "a checkpoint is not needed any more", "installed")
    async with asyncio.timeout(150):
        while not any(events(cluster, 1, end) for end in ends):
            await asyncio.sleep(0.1)
    # Nodes 1 and 3 have between them all that was acknowledged.
    await client.wait_ready()
    texts: list[str] = []
    async with asyncio.timeout(60):
        while len(texts) < 900:
            await asyncio.sleep(0.5)
            try:
                texts = await read_texts(client, queue, node=1)
            except QueueNotFound:
                texts = []  # Node 1 is back before the queue was made.
            if events(cluster, 1, "installed"):
                break
    assert [text.split()[0] for text in texts] == [*map(str, range(900))]
    assert not events(cluster, 1, "installed")
    cluster.start_node(2)
    await client.wait_ready()
    await add(range(900, 910))
