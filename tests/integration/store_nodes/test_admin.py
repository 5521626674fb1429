"""`packetboat store …` on node processes, while messages are stored: nodes replaced, added and
removed, groups added, leaders moved, zones lost. Every command can be killed and run again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.cluster import GROUPS, NODES, ChaosCluster
from store_nodes.admin import Operator
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from tests.integration.store_nodes.store_cluster import batch, new_queue, read_texts

PAUSE_S = 0.01


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ChaosCluster]:
    async with ChaosCluster(tmp_path, store_only=True) as running:
        yield running


class Writer:
    """Stores numbered messages, one after the other, in a queue of each of some groups; a message
    that is not stored fails the test."""

    def __init__(self, client: StoreClient, groups: tuple[int, ...]) -> None:
        self.client = client
        self.groups = groups
        self.queues: dict[int, QueueId] = {}
        self.texts: dict[int, list[str]] = {group: [] for group in groups}
        self.stopped = False

    async def write(self, group: int) -> None:
        appender = self.client.appender(group, self.queues[group])
        texts = self.texts[group]
        while not self.stopped:
            texts.append(str(len(texts)))
            await appender.append(batch(texts[-1]), 1, timeout_s=20)
            await asyncio.sleep(PAUSE_S)

    async def check(self, node: int | None = None) -> None:
        """All that was answered is there, once and in order; `node`: also on that one."""
        for group in self.groups:
            assert len(self.texts[group]) > 10
            assert (
                await read_texts(self.client, self.queues[group], group, node)
                == (self.texts[group])
            )


@asynccontextmanager
async def writing(cluster: ChaosCluster, *groups: int) -> AsyncIterator[Writer]:
    """Messages are stored while the body runs."""
    client = cluster.store_client()
    await client.start()
    await client.wait_ready()
    writer = Writer(client, groups)
    for group in groups:
        writer.queues[group] = await new_queue(client, group)
    try:
        async with asyncio.TaskGroup() as tasks:
            for group in groups:
                tasks.create_task(writer.write(group))
            yield writer
            writer.stopped = True
        await writer.check()
    finally:
        await client.close()


async def done(cluster: ChaosCluster, *arguments: str) -> str:
    status, said = await cluster.operated(*arguments)
    assert status == 0, said
    return said


async def overview(cluster: ChaosCluster) -> dict[str, Any]:
    """Return the output of `status --json`."""
    client = cluster.store_client()
    await client.start()
    try:
        async with asyncio.timeout(10):
            while not client.connected:
                await asyncio.sleep(0.01)
        seen = await Operator(client).stable_overview()
    finally:
        await client.close()
    raw = msgspec.json.encode({"nodes": seen.nodes, "groups": seen.groups})
    found: dict[str, Any] = json.loads(raw)
    return found


async def until_spare(cluster: ChaosCluster, spare: int) -> None:
    """Wait until every group has a leader and could lose `spare` voters."""
    async with asyncio.timeout(60):
        while True:
            rows = (await overview(cluster))["groups"]
            if {(row["leader"] is not None, row["spare"]) for row in rows} == {(True, spare)}:
                return
            await asyncio.sleep(0.1)


async def killed_after(cluster: ChaosCluster, word: str, *arguments: str) -> None:
    """Run a command until it says `word`, and kill it there."""
    process = await cluster.operate(*arguments)
    assert process.stdout is not None
    while line := await asyncio.to_thread(process.stdout.readline):
        if word in line:
            break
    else:
        raise AssertionError(f"it ended without {word!r}")
    process.kill()
    await asyncio.to_thread(process.communicate)


def new_node(cluster: ChaosCluster, node: int) -> str:
    address = cluster.new_node(node)
    cluster.start_node(node)
    return address


async def test_status_says_what_runs_and_what_does_not(cluster: ChaosCluster) -> None:
    said = await done(cluster, "status")
    for node in NODES:
        assert f"127.0.0.1:{cluster.addresses[node][1]}" in said
    seen = await overview(cluster)
    assert [row["state"] for row in seen["nodes"]] == ["up"] * 3
    assert [row["voters"] for row in seen["groups"]] == [[1, 2, 3]] * GROUPS
    assert sum(row["leads"] for row in seen["nodes"]) == GROUPS
    cluster.kill_node(2)
    await until_spare(cluster, 0)
    status, said = await cluster.operated("status", "--json")
    seen = json.loads(said.splitlines()[-1])
    assert status == 0
    assert [row["state"] for row in seen["nodes"]] == ["up", "down", "up"]
    assert {row["warning"] for row in seen["groups"]} == {"one more loss stops it"}
    cluster.kill_node(3)
    status, said = await cluster.operated("status")
    assert status == 1
    assert "no quorum" in said or "no leader" in said


async def test_a_command_that_cannot_reach_the_store_says_so(cluster: ChaosCluster) -> None:
    for node in NODES:
        cluster.kill_node(node)
    status, said = await cluster.operated("status")
    assert status == 1
    assert "no store node answers" in said


async def test_a_dead_node_is_replaced_by_a_command_that_is_killed_twice(
    cluster: ChaosCluster,
) -> None:
    async with writing(cluster, 0, 1, 2) as writer:
        cluster.kill_node(2)
        address = new_node(cluster, 4)
        command = ("replace-node", "2", "4", address)
        await killed_after(cluster, "joins as a learner", *command)
        await killed_after(cluster, "is a voter", *command)
        said = await done(cluster, *command)
        assert "node 4 is where node 2 was" in said
        await done(cluster, *command)
        seen = await overview(cluster)
        assert {tuple(row["voters"]) for row in seen["groups"]} == {(1, 3, 4)}
        assert {tuple(row["removed"]) for row in seen["groups"]} == {(2,)}
        status, said = await cluster.operated("add-node", "2", address)
        assert status == 1
        assert "never used again" in said
    async with asyncio.timeout(30):
        await cluster.until_replicas_agree(nodes=(1, 3, 4))
    client = cluster.store_client()
    await client.start()
    writer.client = client
    try:
        await writer.check(node=4)
    finally:
        await client.close()


async def test_a_node_joins_and_leaves_while_messages_are_stored(cluster: ChaosCluster) -> None:
    async with writing(cluster, 0, 3):
        await done(cluster, "add-node", "4", new_node(cluster, 4))
        seen = await overview(cluster)
        assert {tuple(row["voters"]) for row in seen["groups"]} == {(1, 2, 3, 4)}
        await done(cluster, "remove-node", "1")
        seen = await overview(cluster)
        assert {tuple(row["voters"]) for row in seen["groups"]} == {(2, 3, 4)}
        assert all(row["leader"] in (2, 3, 4) for row in seen["groups"])
    assert await cluster.exit_status(1) == 78


async def test_nothing_is_added_that_does_not_run_or_is_another(cluster: ChaosCluster) -> None:
    address = cluster.new_node(4)
    status, said = await cluster.operated("add-node", "4", f"127.0.0.1:{cluster.http_port}")
    assert status == 1
    assert "start it first" in said
    cluster.start_node(4)
    status, said = await cluster.operated("add-node", "5", address)
    assert status == 1
    assert "node 4 answers where 5 should" in said
    status, said = await cluster.operated("replace-node", "9", "4", address)
    assert (status, "is and was in no group" in said) == (1, True)
    assert (await cluster.operated("add-node", "4", "nowhere"))[0] == 2
    seen = await overview(cluster)
    assert [row["learners"] for row in seen["groups"]] == [[]] * GROUPS


async def test_a_group_is_added_and_used(cluster: ChaosCluster) -> None:
    async with writing(cluster, 0):
        client = cluster.store_client()
        await client.start()
        await client.wait_ready()
        total = str(GROUPS + 1)
        await done(cluster, "add-group", "--total", total)
        await done(cluster, "add-group", "--total", total)
        async with asyncio.timeout(20):
            while GROUPS not in client.groups or not client.has_leader(GROUPS):
                await asyncio.sleep(0.05)
        queue = await new_queue(client, GROUPS)
        await client.appender(GROUPS, queue).append(batch("new"), 1)
        for node in NODES:
            cluster.kill_node(node)
        for node in NODES:
            cluster.start_node(node)
        await client.wait_ready()
        assert await read_texts(client, queue, GROUPS) == ["new"]
        await client.close()
    assert [row["group"] for row in (await overview(cluster))["groups"]] == [*range(GROUPS + 1)]


async def test_nodes_restart_one_by_one_and_leaders_come_back(cluster: ChaosCluster) -> None:
    await done(cluster, "balance")  # the first elected leader need not be the right one
    before = [row["leader"] for row in (await overview(cluster))["groups"]]
    async with writing(cluster, 0, 1, 2):
        for node in NODES:
            await done(cluster, "drain", str(node))
            assert node not in [row["leader"] for row in (await overview(cluster))["groups"]]
            await cluster.stop_node(node)
            cluster.start_node(node)
        await done(cluster, "balance")
        seen = await overview(cluster)
        assert [row["leader"] for row in seen["groups"]] == before
        assert [row["wished"] for row in seen["groups"]] == [0] * GROUPS


async def test_a_node_that_a_quorum_needs_is_not_drained(cluster: ChaosCluster) -> None:
    cluster.kill_node(1)
    status, said = await cluster.operated("drain", "2", "--timeout", "1")
    assert status == 1
    assert "must not be stopped now" in said
    assert "node 1 is down" in said


async def test_a_leader_is_wished_for_and_stays_until_balance(cluster: ChaosCluster) -> None:
    await done(cluster, "transfer", "0", "3")
    seen = await overview(cluster)
    assert (seen["groups"][0]["leader"], seen["groups"][0]["wished"]) == (3, 3)
    assert (await cluster.operated("transfer", "0", "7"))[0] == 1
    await done(cluster, "balance")
    assert (await overview(cluster))["groups"][0]["leader"] == 1


async def test_any_zone_of_three_can_be_lost(tmp_path: Path) -> None:
    zones = {1: "a", 2: "b", 3: "c"}
    async with ChaosCluster(tmp_path, store_only=True, zones=zones) as cluster:
        address = new_node(cluster, 4)
        status, said = await cluster.operated("add-node", "4", address, "--zone", "a")
        assert status == 1
        assert "zone a would hold half of the voters" in said
        await done(cluster, "add-node", "4", address, "--zone", "a", "--force")
        address = new_node(cluster, 5)
        status, said = await cluster.operated("add-node", "5", address, "--zone", "a")
        assert status == 1
        assert "zone a would hold a majority" in said
        await done(cluster, "add-node", "5", address, "--zone", "b")
        seen = await overview(cluster)
        assert [row["zone"] for row in seen["nodes"]] == ["a", "b", "c", "a", "b"]
        assert {row["spare"] for row in seen["groups"]} == {2}
        async with writing(cluster, 0, 1, 2):
            for lost in ((1, 4), (2, 5), (3,)):
                for node in lost:
                    cluster.kill_node(node)
                await until_spare(cluster, 2 - len(lost))
                for node in lost:
                    cluster.start_node(node)
                await until_spare(cluster, 2)
