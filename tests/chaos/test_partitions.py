"""Networks that let only some of what nodes say to each other pass: a majority that hears each
other serves, nothing is lost, and ballots do not run away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from tests.chaos.links import Links
from tests.chaos.scenarios import Torture

PARTITIONED_S = 1.5


@pytest.fixture
async def partitioned(tmp_path: Path) -> AsyncIterator[tuple[Torture, Links]]:
    """Run the store nodes alone, with proxies before them, under load."""
    cluster = ChaosCluster(tmp_path, store_only=True, proxied=True)
    async with Links(cluster.addresses, cluster.listens) as links, cluster:
        torture = await Torture.on_store(cluster, per_second=60, keys=4)
        torture.workload.start()
        await torture.workload.publish_one()
        yield torture, links
        links.heal()
        await torture.verify()


async def until_served(torture: Torture) -> None:
    """Wait until every partition took a message that was sent from now on."""
    history = torture.workload.history
    first = len(history)
    async with asyncio.timeout(30):
        while {publish.partition for publish in history[first:]} - {-1} != set(
            range(torture.partitions)
        ):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("sends", "hears"),
    [(False, False), (True, False), (False, True)],
    ids=["cut off", "sends only", "hears only"],
)
async def test_the_others_serve_while_the_leader_or_a_follower_is_isolated(
    partitioned: tuple[Torture, Links], sends: bool, hears: bool
) -> None:
    torture, links = partitioned
    leader = await torture.leader_of(0)
    follower = next(node for node in NODES if node != leader)
    for isolated in (leader, follower):
        links.isolate(isolated, set(NODES) - {isolated}, sends=sends, hears=hears)
        await until_served(torture)
        async with asyncio.timeout(30):
            while await torture.leader_of(0) == isolated:
                await asyncio.sleep(0.1)
        await asyncio.sleep(PARTITIONED_S)
        await until_served(torture)
        links.heal()
        await until_served(torture)


async def test_a_bridge_and_links_that_flap_leave_a_leader(
    partitioned: tuple[Torture, Links],
) -> None:
    """Only one node hears both others; then each link in turn comes and goes."""
    torture, links = partitioned
    for bridge in NODES:
        one, other = (node for node in NODES if node != bridge)
        links.isolate(one, [other], sends=False, hears=False)
        await until_served(torture)
        await asyncio.sleep(1)
        await until_served(torture)
        links.heal()
    for turn in range(30):
        node = NODES[turn % len(NODES)]
        links.isolate(node, set(NODES) - {node}, sends=False, hears=False)
        await asyncio.sleep(0.2)
        links.heal()
    await until_served(torture)


async def test_flipped_bits_resets_and_delays_between_nodes_lose_nothing(
    partitioned: tuple[Torture, Links],
) -> None:
    torture, links = partitioned
    pairs = [(one, other) for one in NODES for other in NODES if one != other]
    for pair in pairs:
        links.corrupt[pair], links.delay_s[pair] = 0.01, 0.02
    for turn in range(10):
        await asyncio.sleep(0.3)
        links.reset(NODES[turn % len(NODES)])
    async with asyncio.timeout(30):
        while not links.flipped:
            await asyncio.sleep(0.1)
    links.heal()
    await until_served(torture)
