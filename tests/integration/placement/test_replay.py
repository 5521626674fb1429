"""Replay reads and seeks over a partition that was moved, on real store nodes."""

from __future__ import annotations

import asyncio

from gateway.topics.placement import queue_of
from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.subscriptions.seeks import SeekRepository
from metadata.subscriptions.snapshots import SnapshotRepository
from openapi.subscriptions import StartAt
from positions.targets import Targets, To
from store_nodes.record_batch import Message
from tests.integration.placement.placement_support import Site
from tests.unit.subscribe_forwarder.subscribe_support import Answer

MESSAGES = "/topics/{topic}/partitions/{partition}/messages"
OFFSETS = "/topics/{topic}/partitions/{partition}/offsets"


async def ask(site: Site, query: str = "", path: str = MESSAGES) -> Answer:
    return await site.consumer.call("GET", path, query=query, topic="orders", partition="0")


async def read(site: Site, query: str = "") -> list[str]:
    answer = await ask(site, query)
    assert answer.status == 200, answer.body
    return [message["data"] for message in answer.json()["messages"]]


async def publish(site: Site, *bodies: str) -> None:
    for body in bodies:
        message = Message(body.encode(), "text/plain", key="k")
        await site.publisher.publish(site.tenant_id, "orders", message)


async def test_one_sequence_over_a_move_down_to_what_is_kept(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        await publish(site, *"abc")
        old = (await site.topic()).partitions[0]
        following = asyncio.create_task(ask(site, "offset=3&wait_seconds=30"))
        assert await site.mover.move(site.tenant_id, "orders", 0, await site.other_group())
        await publish(site, "d", "e")
        assert (await following).json()["messages"][0]["data"] == "d", "the wait goes over the move"
        assert await read(site) == list("abcde")
        shown = (await ask(site, "offset=2")).json()
        assert (shown["next_offset"], shown["first_offset"], shown["end_offset"]) == (5, 0, 5)
        time = shown["messages"][1]["publish_time"]
        assert (await ask(site, f"time={time}", OFFSETS)).json() == {"first": 0, "end": 5, "at": 3}

        queue = queue_of((await site.topic()).uid, old)
        await site.store.truncate(old.group, queue, 2, keep=[0])
        assert await read(site, "offset=0") == ["a"], "a kept message alone"
        gone = await ask(site, "offset=1")
        assert (gone.status, gone.json()["first_offset"]) == (410, 2)
        assert await read(site) == list("cde")


async def test_a_seek_finds_its_offset_in_the_generation_before(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        await publish(site, *"abc")
        assert await site.mover.move(site.tenant_id, "orders", 0, await site.other_group())
        await publish(site, "d", "e")
        topic = await site.topic()
        targets = Targets(site.store, SnapshotRepository(database))
        places: tuple[tuple[To, int], ...] = (
            *((StartAt(offset=2), 2), (StartAt(offset=4), 4)),
            *(("earliest", 0), ("latest", 5)),
        )
        for to, floor in places:
            _, found = await targets.find(topic, to)
            assert found[0, 0].offset == floor
        taken: list[str] = []
        async with asyncio.timeout(20):
            while len(taken) < 5:
                taken += [m["data"] for m in await site.consumer.pulled(10, wait_s=5)]
        found = (await targets.find(topic, StartAt(offset=1)))[1]
        subscription = await site.subscriptions.get(site.tenant_id, "reader")
        await SeekRepository(database).seek(site.tenant_id, subscription.uid, found)
        moved = await site.subscriptions.get(site.tenant_id, "reader")
        await site.consumer.forwarder.reload(moved)
        again: list[str] = []
        async with asyncio.timeout(20):
            while len(again) < 4:
                again += [m["data"] for m in await site.consumer.pulled(10, wait_s=5)]
        assert again == list("bcde")
