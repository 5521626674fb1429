"""A new node, under a new id, in the place of one that is gone; under load, with the operator's own
functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.cluster import ChaosCluster
from store_nodes.admin.members import replace_node
from store_nodes.admin.operator import Operator
from tests.chaos.scenarios import Torture
from tests.chaos.test_wiped_nodes import REFUSED, last_words

MIB = 1024 * 1024


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    """Run the store nodes alone."""
    async with ChaosCluster(tmp_path, store_only=True, segment_bytes=MIB) as cluster:
        yield cluster


async def replace(cluster: ChaosCluster, old: int, new: int) -> None:
    """Replace a node as `packetboat store replace-node` does."""
    address = cluster.new_node(new)
    cluster.start_node(new)
    await cluster.until_up(new)
    client = cluster.store_client()
    await client.start()
    await client.wait_ready()
    operator = Operator(client, timeout_s=60.0)
    await replace_node(operator, old, new, address, secret=cluster.store_secret)
    await client.close()


async def test_a_wiped_node_is_replaced_under_load_and_cannot_come_back(
    cluster: ChaosCluster,
) -> None:
    torture = await Torture.on_store(cluster, per_second=200)
    torture.workload.start()
    await asyncio.sleep(1)
    old_directory = cluster.copy_node(3)
    cluster.kill_node(3)
    cluster.wipe_node(3)
    cluster.start_node(3)
    assert await cluster.exit_status(3) == REFUSED
    await replace(cluster, 3, 4)
    await torture.verify(nodes=(1, 2, 4))
    # The new one counts: with another one gone there is still a majority.
    cluster.kill_node(1)
    await torture.workload.publish_one()
    cluster.start_node(1)
    # The directory turns up again, long after its node was removed.
    cluster.restore_node(3, old_directory)
    cluster.start_node(3)
    assert await cluster.exit_status(3) == REFUSED
    assert "removed" in last_words(cluster, 3)
    await torture.verify(nodes=(1, 2, 4))


async def test_a_new_id_does_not_start_in_an_old_directory(cluster: ChaosCluster) -> None:
    cluster.new_node(4)
    cluster.kill_node(3)
    cluster.swap_nodes(3, 4)
    cluster.start_node(4)
    assert await cluster.exit_status(4) == REFUSED
    assert "belongs to node 3" in last_words(cluster, 4)
