"""Disks that fail or are slow under a node that runs: calls that strace makes fail or wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from tests.chaos.scenarios import Torture
from tests.chaos.system_calls import SYNC_FAILS, WRITE_FAILS, Injected, slow_sync, unavailable
from tests.chaos.workload import failed


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    """Run the store nodes alone."""
    reason = unavailable()
    if reason is not None:
        pytest.skip(f"no failing disks here: {reason}")
    async with ChaosCluster(tmp_path, store_only=True) as cluster:
        yield cluster


@pytest.mark.parametrize("spec", [SYNC_FAILS, WRITE_FAILS], ids=["fdatasync", "write"])
async def test_a_node_whose_disk_failed_once_ends_and_nothing_is_lost(
    cluster: ChaosCluster, spec: str
) -> None:
    """The kernel forgets a failed sync, so the next one would succeed and prove nothing."""
    torture = await Torture.on_store(cluster, per_second=100, keys=2)
    torture.workload.start()
    node = await torture.leader_of(0)
    with Injected(cluster.pid(node), spec):
        assert await cluster.exit_status(node) not in (0, -9)
    await torture.workload.publish_one()
    cluster.start_node(node)
    await torture.until_caught_up(node)
    await torture.verify()


async def test_a_leader_whose_disk_is_slow_hands_over(cluster: ChaosCluster) -> None:
    torture = await Torture.on_store(cluster, per_second=100, keys=2)
    torture.workload.start()
    slow = await torture.leader_of(0)
    with Injected(cluster.pid(slow), slow_sync(0.6)):
        async with asyncio.timeout(30):
            while await torture.leader_of(0) == slow:
                await asyncio.sleep(0.1)
        first = len(torture.workload.history)
        await asyncio.sleep(2)
        assert await torture.leader_of(0) != slow
        meanwhile = torture.workload.history[first:-20]
        await torture.workload.answered(meanwhile)
        assert not failed(meanwhile)
    await torture.verify()


async def test_a_follower_whose_disk_is_slow_holds_nobody_up(cluster: ChaosCluster) -> None:
    """Were it waited for, each message of a key would take as long as its disk."""
    torture = await Torture.on_store(cluster, per_second=50, keys=2)
    torture.workload.start()
    leader = await torture.leader_of(0)
    slow = next(node for node in NODES if node != leader)
    with Injected(cluster.pid(slow), slow_sync(3.0)):
        await asyncio.sleep(1)
        for _ in range(20):
            await torture.workload.publish_one()
        assert await torture.leader_of(0) != slow
    await torture.verify()
