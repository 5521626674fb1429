"""Store-node processes and their disks: full, damaged, behind, restarted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from harness.power_cut import Ext4Image, unavailable
from store_nodes.client import Appender, StoreClient
from store_nodes.errors import DiskFull, QueueTruncated
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode
from store_nodes.wire import Durability
from tests.integration.store_nodes.store_cluster import new_queue, ready_client

MIB = 1024 * 1024


def batch(text: str, size_bytes: int = 100) -> bytes:
    return encode([Message(text.encode().ljust(size_bytes))], 1)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    async with ChaosCluster(tmp_path, store_only=True) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


async def read_texts(client: StoreClient, queue: QueueId, group: int = 0) -> list[str]:
    texts: list[str] = []
    offset = (await client.offsets(group, queue)).first
    while True:
        fetched = await client.fetch(group, queue, offset, MIB)
        if not fetched.entries:
            return texts
        for entry in fetched.entries:
            messages = decode(entry.batch)
            texts += [message.data.decode().rstrip() for message in messages]
            offset = entry.base_offset + len(messages)


async def append_all(appender: Appender, texts: list[str]) -> None:
    for start in range(0, len(texts), 32):
        chunk = texts[start : start + 32]
        futures = [appender.append(batch(text), 1, timeout_s=30) for text in chunk]
        await asyncio.gather(*futures)


async def test_every_durability_is_answered_and_stored(client: StoreClient) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    for durability in Durability:
        await appender.append(batch(durability.name), 1, durability=durability, timeout_s=10)
    await appender.append(batch("LAST"), 1, timeout_s=10)
    assert await read_texts(client, queue) == [*(d.name for d in Durability), "LAST"]


async def test_a_truncated_queue_keeps_what_is_asked_for(client: StoreClient) -> None:
    queue = await new_queue(client)
    await append_all(client.appender(0, queue), [str(number) for number in range(10)])
    assert await client.truncate(0, queue, 8, keep=(3,)) == 8
    with pytest.raises(QueueTruncated) as caught:
        await client.fetch(0, queue, 5, MIB)
    assert caught.value.first_offset == 8
    kept = await client.fetch(0, queue, 3, MIB)
    assert [entry.base_offset for entry in kept.entries] == [3]
    assert await read_texts(client, queue) == ["8", "9"]


async def test_a_node_that_missed_more_than_memory_holds_catches_up_from_the_log(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    cluster.kill_node(3)
    for number in range(1500):
        await appender.append(batch(str(number)), 1, timeout_s=30)
    cluster.start_node(3)
    await cluster.until_replicas_agree()
    assert await read_texts(client, queue) == [str(number) for number in range(1500)]


async def test_everything_is_there_after_a_restart_of_all_nodes(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    queue = await new_queue(client)
    texts = [str(number) for number in range(500)]
    await append_all(client.appender(0, queue), texts)
    for node in NODES:
        cluster.kill_node(node)
    for node in NODES:
        cluster.start_node(node)
    await client.wait_ready()
    assert await read_texts(client, queue) == texts
    await client.appender(0, queue).append(batch("500"), 1, timeout_s=30)
    assert (await read_texts(client, queue))[-1] == "500"


async def test_a_damaged_node_says_so_and_heals(cluster: ChaosCluster, client: StoreClient) -> None:
    queue = await new_queue(client)
    await append_all(client.appender(0, queue), [str(number) for number in range(200)])
    await cluster.until_replicas_agree()
    cluster.kill_node(2)
    segment = max((cluster.node_dirs[2] / "wal").glob("*.wal"))
    raw = bytearray(segment.read_bytes())
    middle = raw.find(b"100 ")
    assert middle > 0
    raw[middle] ^= 1
    segment.write_bytes(raw)
    cluster.start_node(2)
    await append_all(client.appender(0, queue), ["after"])
    await cluster.until_up(2)
    assert "payload" in (cluster.node_dirs[2] / "wal" / "damage.json").read_text()
    async with asyncio.timeout(60):
        while (await cluster.statuses())[2].get("damaged", True):
            await asyncio.sleep(0.1)
    assert cluster.is_running(2)
    await cluster.until_replicas_agree()
    assert (await read_texts(client, queue))[-1] == "after"


async def test_a_full_disk_is_refused_before_the_log_meets_it(tmp_path: Path) -> None:
    if (reason := unavailable()) is not None:
        pytest.skip(f"no disk images here: {reason}")
    with Ext4Image(tmp_path, size_mb=900) as disk:
        directories = {node: disk.mount_point / f"node-{node}" for node in NODES}
        async with ChaosCluster(tmp_path / "cluster", directories, store_only=True) as cluster:
            client = cluster.store_client()
            await client.start()
            await client.wait_ready()
            await fill(client, cluster, disk.mount_point)
            await client.close()


async def fill(client: StoreClient, cluster: ChaosCluster, disk: Path) -> None:
    queue = await new_queue(client)
    appender = client.appender(0, queue)
    await appender.append(batch("before"), 1, timeout_s=10)
    filler = disk / "filler"
    stat = os.statvfs(disk)
    descriptor = os.open(filler, os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(descriptor, 0, stat.f_bavail * stat.f_frsize - 12 * MIB)
    os.close(descriptor)
    refused = False
    async with asyncio.timeout(20):
        while not refused:
            try:
                await appender.append(batch("early", 1000), 1, timeout_s=10)
                await asyncio.sleep(0.02)
            except DiskFull:
                refused = True
    assert all(cluster.is_running(node) for node in NODES)
    assert (await read_texts(client, queue))[0] == "before"
    filler.unlink()
    async with asyncio.timeout(20):
        while True:
            try:
                await appender.append(batch("again"), 1, timeout_s=10)
                break
            except DiskFull:
                await asyncio.sleep(0.1)
    await cluster.until_replicas_agree()


async def test_a_node_that_never_lives_long_leaves_a_checkpoint_all_the_same(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    """Replayed bytes count as written since the last checkpoint; otherwise each start would
    read more.
    """
    queue = await new_queue(client)
    for life in range(2):
        appender = client.appender(0, queue)
        large = batch("large", MIB // 4)
        for _ in range(36):
            await asyncio.gather(*(appender.append(large, 1, timeout_s=30) for _ in range(4)))
        appender.close()
        for node in NODES:
            found = list((cluster.node_dirs[node] / "checkpoints").glob("checkpoint-*"))
            assert life == 1 or not found
            cluster.kill_node(node)
        for node in NODES:
            cluster.start_node(node)
        await client.wait_ready()
    async with asyncio.timeout(30):
        for node in NODES:
            while not list((cluster.node_dirs[node] / "checkpoints").glob("checkpoint-*")):
                await asyncio.sleep(0.1)
