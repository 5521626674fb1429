"""Bytes of a stopped node's disk that change: on a minority nothing is lost and the node is whole
again by itself; on a majority, or where there is one copy, it is refused, loudly and by name.

Every part of a directory is harmed in every way. Segments are small, so that a short load makes a
log with sealed and settled parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import GROUPS, NODES, ChaosCluster
from store_nodes.client import StoreClient
from store_nodes.errors import Unavailable
from store_nodes.membership import VOTER
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode, peek
from tests.chaos.damage import HARMS, Harm, checkpoints, harm, manifests, segments, settled
from tests.chaos.history import Outcome
from tests.chaos.read_log import queues_of
from tests.chaos.scenarios import Torture

MIB = 1024 * 1024


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    """Run the store nodes alone."""
    async with ChaosCluster(tmp_path, store_only=True, segment_bytes=MIB) as cluster:
        yield cluster


async def until_repaired(cluster: ChaosCluster, node: int, timeout_s: float = 25.0) -> None:
    """Wait until nothing of the node is damaged and it votes in every group again.

    Meanwhile it must lead none in which it does not vote.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            status = (await cluster.statuses((node,)))[node]
            if "groups" in status:
                for group in status["groups"]:
                    assert group["voting"] or group["leader"] != node
                if not status["damaged"] and all(_votes(group, node) for group in status["groups"]):
                    return
            await asyncio.sleep(0.05)


def _votes(group: dict[str, Any], node: int) -> bool:
    roles = {member["node"]: member["role"] for member in group["members"]}
    return bool(group["voting"]) and roles.get(node) == VOTER


def events(cluster: ChaosCluster, node: int, event: str) -> list[dict[str, Any]]:
    """Return the events of a name in the node's log."""
    lines = (cluster.root / f"node-{node}.log").read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [one for one in found if one["event"] == event]


async def until_same_bytes(cluster: ChaosCluster, torture: Torture) -> None:
    """Wait until each node has every readable batch of the topic, the same.

    A node learns of an unknown loss when it is asked, and repairs it.
    """
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(Unavailable):
                if await _have_same_bytes(cluster, torture, NODES):
                    return
            await asyncio.sleep(0.1)


async def _have_same_bytes(cluster: ChaosCluster, torture: Torture, nodes: Iterable[int]) -> bool:
    """Return False where one has less than another; common bytes must be the same."""
    client = cluster.store_client()
    await client.start()
    await client.wait_ready()
    queues = await queues_of(client, torture.topic_uid)
    same = True
    for group, queue in queues.values():
        read: dict[int, list[tuple[int, bytes]]] = {}
        for node in nodes:
            offset, read[node] = 0, []
            while (found := await client.fetch(group, queue, offset, MIB, node=node)).entries:
                read[node] += [(one.base_offset, bytes(one.batch)) for one in found.entries]
                last = found.entries[-1]
                offset = last.base_offset + peek(last.batch)[0]
        longest = max(read.values(), key=len)
        assert longest
        assert all(one == longest[: len(one)] for one in read.values())
        same = same and all(len(one) == len(longest) for one in read.values())
    await client.close()
    return same


async def until_compacted(cluster: ChaosCluster, node: int) -> None:
    """Until some of what was published lies in settled segments of the node."""
    client = cluster.store_client()
    await client.start()
    await client.wait_ready()
    async with asyncio.timeout(20):
        while not events(cluster, node, "settled"):
            await client.take_checkpoint(0)
            await asyncio.sleep(0.5)
    await client.close()


Part = Callable[[Path], Path]


def tail(directory: Path) -> Path:
    return segments(directory)[-1]


def sealed(directory: Path) -> Path:
    found = segments(directory)
    return found[len(found) // 2 - 1]


@pytest.mark.parametrize("how", HARMS, ids=lambda how: how.__name__)
@pytest.mark.parametrize("share", [0.4, 0.999], ids=["middle", "end"])
@pytest.mark.parametrize("part", [tail, sealed], ids=lambda part: part.__name__)
async def test_a_node_with_a_damaged_log_repairs_itself_and_nothing_is_lost(
    cluster: ChaosCluster, part: Part, share: float, how: Harm
) -> None:
    """No checkpoint lies above the damage: promises may be lost with it."""
    torture = await Torture.on_store(cluster, per_second=300)
    torture.workload.start()
    await asyncio.sleep(3)
    cluster.kill_node(3)
    harm(part(cluster.node_dirs[3]), share, how)
    cluster.start_node(3)
    await asyncio.sleep(1)
    await until_repaired(cluster, 3)
    await torture.verify()
    await until_same_bytes(cluster, torture)
    if share < 0.9:
        assert [one["votes_lost"] for one in events(cluster, 3, "damaged")] == [True]
        assert len(events(cluster, 3, "may vote again")) == GROUPS


@pytest.mark.parametrize("how", HARMS, ids=lambda how: how.__name__)
@pytest.mark.parametrize("share", [0.4, 0.999], ids=["middle", "end"])
async def test_batches_lost_below_the_checkpoint_are_fetched_and_the_node_votes_on(
    cluster: ChaosCluster, share: float, how: Harm
) -> None:
    torture = await Torture.on_store(cluster, per_second=300)
    torture.workload.start()
    await asyncio.sleep(3)
    await cluster.stop_node(3)
    harm(sealed(cluster.node_dirs[3]), share, how)
    cluster.start_node(3)
    await until_repaired(cluster, 3)
    await torture.workload.stop()
    await until_same_bytes(cluster, torture)
    await until_repaired(cluster, 3)
    await torture.verify()
    assert events(cluster, 3, "may vote again") == []
    if share < 0.9:
        assert events(cluster, 3, "repaired")


@pytest.mark.parametrize("how", HARMS, ids=lambda how: how.__name__)
async def test_a_damaged_settled_segment_is_repaired(cluster: ChaosCluster, how: Harm) -> None:
    torture = await Torture.on_store(cluster, per_second=400)
    torture.workload.start()
    await asyncio.sleep(4)
    await until_compacted(cluster, 3)
    await torture.workload.stop()
    await cluster.stop_node(3)
    harm(settled(cluster.node_dirs[3])[0], 0.4, how)
    cluster.start_node(3)
    await cluster.until_replicas_agree()
    await until_same_bytes(cluster, torture)
    await until_repaired(cluster, 3)
    await torture.verify()
    assert events(cluster, 3, "repaired")


@pytest.mark.parametrize("files", [checkpoints, manifests], ids=lambda files: files.__name__)
@pytest.mark.parametrize("how", HARMS[:2], ids=lambda how: how.__name__)
async def test_one_damaged_checkpoint_costs_a_longer_start(
    cluster: ChaosCluster, files: Callable[[Path], list[Path]], how: Harm
) -> None:
    torture = await Torture.on_store(cluster, per_second=200)
    torture.workload.start()
    for _ in range(2):
        await cluster.stop_node(3)
        cluster.start_node(3)
    await cluster.stop_node(3)
    harm(files(cluster.node_dirs[3])[-1], 0.5, how)
    cluster.start_node(3)
    await torture.verify()
    await until_same_bytes(cluster, torture)
    assert len(events(cluster, 3, "a checkpoint was skipped")) == 1
    assert events(cluster, 3, "damaged") == []


@pytest.mark.parametrize("files", [checkpoints, manifests], ids=lambda files: files.__name__)
async def test_a_node_without_a_whole_checkpoint_is_made_whole_by_its_peers(
    cluster: ChaosCluster, files: Callable[[Path], list[Path]]
) -> None:
    """Start a node whose damaged checkpoints have its promises; the log before them may be gone."""
    torture = await Torture.on_store(cluster, per_second=300)
    torture.workload.start()
    await asyncio.sleep(2.5)
    for _ in range(2):
        await cluster.stop_node(3)
        cluster.start_node(3)
    await until_compacted(cluster, 3)
    cluster.kill_node(3)
    for file in files(cluster.node_dirs[3]):
        harm(file, 0.5, HARMS[0])
    cluster.start_node(3)
    await until_repaired(cluster, 3)
    await torture.verify()
    await until_same_bytes(cluster, torture)
    assert True in [one["votes_lost"] for one in events(cluster, 3, "damaged")]
    assert len(events(cluster, 3, "may vote again")) >= GROUPS


async def test_promises_lost_on_a_majority_stop_the_groups_and_say_where(
    cluster: ChaosCluster,
) -> None:
    torture = await Torture.on_store(cluster, per_second=300)
    torture.workload.start()
    await asyncio.sleep(2)
    await torture.workload.stop()
    for node in (2, 3):
        cluster.kill_node(node)
        harm(tail(cluster.node_dirs[node]), 0.4, HARMS[0])
    cluster.kill_node(1)
    for node in (1, 2, 3):
        cluster.start_node(node)
    async with asyncio.timeout(20):
        while True:
            statuses = await cluster.statuses()
            if all("groups" in status for status in statuses.values()):
                break
    await asyncio.sleep(4)
    statuses = await cluster.statuses()
    for node in (2, 3):
        place = int(segments(cluster.node_dirs[node])[-1].stem, 16) - 1
        assert f"segment {place} at " in statuses[node]["damaged"]
        assert statuses[node]["votes_lost"]
    assert not statuses[1]["damaged"]
    leaders = {group["leader"] for status in statuses.values() for group in status["groups"]}
    assert leaders == {None}
    publish = await torture.workload.publish()
    assert publish.outcome is not Outcome.ACKED


@pytest.mark.parametrize("copies", [2, 3], ids=["majority", "every copy"])
async def test_messages_lost_on_several_nodes_are_refused_by_name_where_nobody_has_them(
    cluster: ChaosCluster, copies: int
) -> None:
    """Test damage to the same batch on several nodes.

    One whole copy mends the others; without one its offsets are refused, and never is a shorter log
    served as if it were whole.
    """
    client = cluster.store_client()
    await client.start()
    await client.wait_ready()
    queue = QueueId(os.urandom(16), 0)
    await client.create(0, queue)
    appender = client.appender(0, queue)
    texts = [b"message %03d of the queue " % number * 20 for number in range(200)]
    for text in texts:
        await appender.append(encode([Message(text)], 1), 1, timeout_s=10)
    await cluster.until_replicas_agree()
    for node in NODES:
        await cluster.stop_node(node)
    for node in NODES[:copies]:
        for path in segments(cluster.node_dirs[node]):
            raw = bytearray(path.read_bytes())
            at = raw.find(texts[100])
            if at >= 0:
                raw[at + 30] ^= 4
                path.write_bytes(raw)
                break
        else:
            raise AssertionError("the batch is not there")
    for node in NODES:
        cluster.start_node(node)
    await client.wait_ready()
    if copies < len(NODES):
        for node in NODES:
            await until_repaired(cluster, node)
    for node in NODES:
        await _read(client, queue, node, texts, lost=100 if copies == len(NODES) else None)
    await appender.append(encode([Message(b"more")], 1), 1, timeout_s=10)
    if copies == len(NODES):
        lost = {"group": 0, "queue": queue.pack().hex(), "staged": False, "first": 100, "end": 101}
        async with asyncio.timeout(20):
            while True:
                statuses = await cluster.statuses()
                if all(status.get("lost") == [lost] for status in statuses.values()):
                    break
                await asyncio.sleep(0.2)
        assert all(status["damaged"] for status in statuses.values())
    await client.close()


async def _read(
    client: StoreClient, queue: QueueId, node: int, texts: list[bytes], lost: int | None
) -> None:
    offset = 0
    while offset < len(texts):
        if offset == lost:
            with pytest.raises(Unavailable, match=f"offsets {lost} to {lost} of queue"):
                await client.fetch(0, queue, offset, MIB, node=node)
            offset += 1
            continue
        found = await client.fetch(0, queue, offset, MIB, node=node)
        for entry in found.entries:
            assert entry.base_offset == offset
            (message,) = decode(entry.batch)
            assert message.data == texts[offset]
            offset += 1
