"""Groups that are added to a running cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import GROUPS, NODES, ChaosCluster
from store_nodes.admin.groups import add_groups
from store_nodes.admin.members import add_node
from store_nodes.admin.operator import Operator
from store_nodes.client import StoreClient
from tests.integration.store_nodes.store_cluster import batch, new_queue, read_texts, ready_client


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    async with ChaosCluster(tmp_path, store_only=True) as running:
        yield running


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as connected:
        yield connected


async def until_levelled(cluster: ChaosCluster, nodes: tuple[int, ...], groups: int) -> None:
    """Wait until these nodes have `groups` groups, each with one state."""

    def state(status: dict[str, Any]) -> list[tuple[int, int, str]]:
        rows = status.get("groups", [])
        return [(row["group"], row["applied"], row["digest"]) for row in rows]

    async with asyncio.timeout(40):
        while True:
            statuses = await cluster.statuses(nodes)
            states = [state(statuses[node]) for node in nodes]
            if len(states[0]) == groups and all(one == states[0] for one in states):
                return
            await asyncio.sleep(0.1)


async def test_added_groups_serve_on_every_node_also_on_one_that_was_away(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    cluster.kill_node(3)
    assert await add_groups(Operator(client, timeout_s=40), GROUPS + 2) == GROUPS + 2
    queue = await new_queue(client, GROUPS + 1)
    await client.appender(GROUPS + 1, queue).append(batch("first"), 1, timeout_s=20)
    cluster.start_node(3)
    await until_levelled(cluster, NODES, GROUPS + 2)
    for node in NODES:
        cluster.kill_node(node)
    for node in NODES:
        cluster.start_node(node)
    await client.appender(GROUPS + 1, queue).append(batch("second"), 1, timeout_s=30)
    await until_levelled(cluster, NODES, GROUPS + 2)
    for node in NODES:
        assert await read_texts(client, queue, GROUPS + 1, node) == ["first", "second"]


async def test_a_node_that_joins_after_groups_were_added_gets_them(
    cluster: ChaosCluster, client: StoreClient
) -> None:
    operator = Operator(client, timeout_s=60)
    await add_groups(operator, GROUPS + 1)
    queue = await new_queue(client, GROUPS)
    await client.appender(GROUPS, queue).append(batch("first"), 1, timeout_s=20)
    address = cluster.new_node(4)
    cluster.start_node(4)
    await cluster.until_up(4)
    await add_node(operator, 4, address, secret=cluster.store_secret)
    await until_levelled(cluster, (1, 2, 3, 4), GROUPS + 1)
    assert await read_texts(client, queue, GROUPS, 4) == ["first"]
    # Groups that are added now begin with four members.
    await add_groups(operator, GROUPS + 2)
    await until_levelled(cluster, (1, 2, 3, 4), GROUPS + 2)
    statuses = await cluster.statuses((1, 2, 3, 4))
    assert [m["node"] for m in statuses[4]["groups"][GROUPS + 1]["members"]] == [1, 2, 3, 4]
