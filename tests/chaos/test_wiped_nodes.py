"""Data directories that are gone, another's, or older than the promises of their node.

Each is refused under its old id: the process ends with status 78 and says what to do, and the
others go on. Such a node is dangerous because it has forgotten its promises.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from tests.chaos.scenarios import Torture

REFUSED = 78
REMEDY = "packetboat store replace-node {node} NEW HOST:PORT"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    """Run the store nodes alone."""
    async with ChaosCluster(tmp_path, store_only=True) as cluster:
        yield cluster


def last_words(cluster: ChaosCluster, node: int) -> str:
    """Return why the node stopped, as its log's last line says."""
    words: str = json.loads(cluster.tail(f"node-{node}").splitlines()[-1])["reason"]
    return words


async def require_refused(cluster: ChaosCluster, node: int, why: str) -> None:
    """Require that the node ends by itself, saying why and what to do, and would again."""
    for again in (True, False):
        assert await cluster.exit_status(node) == REFUSED
        words = last_words(cluster, node)
        assert why in words
        assert REMEDY.format(node=node) in words
        if again:
            cluster.start_node(node)


async def until_its_start_is_known(cluster: ChaosCluster, node: int) -> None:
    """Wait until both peers have met this start of the node: each judges by what it saw itself."""
    others = [other for other in NODES if other != node]
    async with asyncio.timeout(60):
        while True:
            statuses = await cluster.statuses(NODES)
            start = statuses[node].get("start")
            known = [
                peer["start"]
                for other in others
                for peer in statuses[other].get("peers", ())
                if peer["node"] == node
            ]
            if start is not None and known == [start] * len(others):
                return
            await asyncio.sleep(0.1)


async def wiped(cluster: ChaosCluster, torture: Torture) -> None:
    await asyncio.sleep(1.5)
    cluster.kill_node(3)
    cluster.wipe_node(3)


async def only_the_log_is_gone(cluster: ChaosCluster, torture: Torture) -> None:
    await asyncio.sleep(0.5)
    await cluster.stop_node(3)
    for path in (cluster.node_dirs[3] / "wal").iterdir():
        path.unlink()


async def backup_of_a_stopped_node(cluster: ChaosCluster, torture: Torture) -> None:
    await asyncio.sleep(0.5)
    await cluster.stop_node(3)
    copy = cluster.copy_node(3)
    cluster.start_node(3)
    await until_its_start_is_known(cluster, 3)
    cluster.kill_node(3)
    cluster.restore_node(3, copy)


async def backup_of_a_running_node(cluster: ChaosCluster, torture: Torture) -> None:
    """Restore a backup of a running node.

    The start after it has a number that nobody has seen; its log is too short.
    """
    await asyncio.sleep(0.5)
    copy = cluster.copy_node(3)
    await asyncio.sleep(3.0)
    cluster.kill_node(3)
    cluster.restore_node(3, copy)


async def backup_of_a_backup(cluster: ChaosCluster, torture: Torture) -> None:
    """Restore a backup of a backup: started once too often to be lower, and from another
    history.
    """
    await asyncio.sleep(0.5)
    await cluster.stop_node(3)
    copy = cluster.copy_node(3)
    for _ in range(2):
        cluster.start_node(3)
        await until_its_start_is_known(cluster, 3)
        await cluster.stop_node(3)
    cluster.restore_node(3, copy)


Loss = Callable[[ChaosCluster, Torture], Awaitable[None]]


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (wiped, "not the one it had"),
        (only_the_log_is_gone, "holds checkpoints but no log"),
        (backup_of_a_stopped_node, "its data directory"),
        (backup_of_a_running_node, "older copy (its log ends at"),
        (backup_of_a_backup, "older copy (start"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_node_that_lost_what_it_had_is_refused_and_nothing_is_lost(
    cluster: ChaosCluster, lose: Loss, why: str
) -> None:
    torture = await Torture.on_store(cluster, per_second=200)
    torture.workload.start()
    await lose(cluster, torture)
    cluster.start_node(3)
    await require_refused(cluster, 3, why)
    await torture.verify(nodes=(1, 2))


async def test_swapped_directories_are_refused(cluster: ChaosCluster) -> None:
    for node in (2, 3):
        cluster.kill_node(node)
    cluster.swap_nodes(2, 3)
    for node in (2, 3):
        cluster.start_node(node)
    for node in (2, 3):
        await require_refused(cluster, node, f"belongs to node {5 - node}")
    cluster.swap_nodes(2, 3)
    for node in (2, 3):
        cluster.start_node(node)
    await cluster.until_replicas_agree()


async def test_a_directory_of_another_cluster_is_refused(cluster: ChaosCluster) -> None:
    cluster.kill_node(3)
    cluster.start_node(3, {"PACKETBOAT_CLUSTER_UID": os.urandom(16).hex()})
    assert await cluster.exit_status(3) == REFUSED
    assert "belongs to cluster" in last_words(cluster, 3)
    cluster.start_node(3)
    await cluster.until_replicas_agree()


async def test_a_first_start_waits_for_every_first_node(tmp_path: Path) -> None:
    """Two empty directories are a majority, and cannot know what the third has promised."""
    cluster = ChaosCluster(tmp_path, store_only=True)
    try:
        for node in (1, 2):
            cluster.start_node(node)
        async with asyncio.timeout(20):
            while True:
                statuses = await cluster.statuses((1, 2))
                if statuses[1].get("waits_for") == statuses[2].get("waits_for") == [3]:
                    break
        await asyncio.sleep(1.5)
        statuses = await cluster.statuses((1, 2))
        assert {group["leader"] for group in statuses[1]["groups"]} == {None}
        await cluster.start()
        # From now on each knows the others: a wiped one is found out by whichever it meets.
        for node in NODES:
            cluster.kill_node(node)
        cluster.wipe_node(3)
        cluster.start_node(3)
        cluster.start_node(2)
        assert await cluster.exit_status(3) == REFUSED
        cluster.start_node(1)
        await cluster.until_replicas_agree(nodes=(1, 2))
    finally:
        cluster.stop()
