"""Truncation and staged messages as subscribers see them, on real store nodes and Postgres."""

from __future__ import annotations

import asyncio
from typing import Any

from edge import message_id
from gateway.topics.placement import queue_of
from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.subscriptions.seeks import LaneOf, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.types import Counters, CursorState
from openapi.subscriptions import StartAt
from positions.targets import Targets, To
from store_nodes import record_batch
from store_nodes.client import StageExtras
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from tests.integration.placement.placement_support import Site

MESSAGE = "/topics/{topic}/messages/{id}"


async def publish(site: Site, *bodies: str, key: str = "k") -> None:
    for body in bodies:
        message = Message(body.encode(), "text/plain", key=key)
        await site.publisher.publish(site.tenant_id, "orders", message)


async def where(site: Site) -> tuple[int, QueueId]:
    topic = await site.topic()
    (partition,) = topic.partitions
    return partition.group, queue_of(topic.uid, partition)


async def row(site: Site) -> CursorState:
    (found,) = await site.cursors.of_topic(site.tenant_id, (await site.topic()).uid)
    return found


async def pulled(site: Site, count: int) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while len(got) < count:
            got += await site.consumer.pulled(100, wait_s=5)
    return got


async def test_truncation_past_a_cursor_is_counted_and_the_books_balance(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        await publish(site, *map(str, range(10)))
        messages = await pulled(site, 10)
        await site.consumer.ack(messages[1], messages[7])
        group, queue = await where(site)
        assert await site.store.truncate(group, queue, 6, keep=[2]) == 6
        async with asyncio.timeout(10):
            while (await row(site)).floor < 6:
                await asyncio.sleep(0.05)
        found = await row(site)
        assert found.counters == Counters(acked=2, expired=5)
        assert await site.cursors.unbalanced() == []
        answer = await site.consumer.ack(*messages)
        assert answer.json()["acked"] == 10, "acking what has expired is no error"
        found = await row(site)
        assert (found.floor, found.counters) == (10, Counters(acked=5, expired=5))


async def test_a_kept_offset_is_readable_alone(nodes: ChaosCluster, database: Database) -> None:
    async with Site.open(nodes, database, 1) as site:
        await publish(site, *map(str, range(5)))
        group, queue = await where(site)
        await site.store.truncate(group, queue, 4, keep=[2])
        shown = {}
        for offset in range(5):
            text = str(message_id.MessageId(1, queue.topic_uid, 0, 0, offset))
            answer = await site.consumer.call("GET", MESSAGE, topic="orders", id=text)
            shown[offset] = answer.status
            if answer.status == 200:
                assert answer.json()["data"] == str(offset)
        assert shown == {0: 404, 1: 404, 2: 200, 3: 404, 4: 200}


async def test_expiry_goes_on_through_sealed_generations(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        await publish(site, "a", "b", "c")
        old = await where(site)
        assert await site.mover.move(site.tenant_id, "orders", 0, await site.other_group())
        await publish(site, "d", "e")
        new = await where(site)
        assert new[0] != old[0]
        await site.store.truncate(*old, 3)
        await site.store.truncate(*new, 4)
        assert [m["data"] for m in await pulled(site, 1)] == ["e"]
        async with asyncio.timeout(10):
            while (await row(site)).counters.expired < 4:
                await asyncio.sleep(0.05)
        assert await site.cursors.unbalanced() == []


async def test_a_new_subscription_starts_in_the_generation_it_names(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        await publish(site, "a", "b", "c")
        old = await where(site)
        assert await site.mover.move(site.tenant_id, "orders", 0, await site.other_group())
        await publish(site, "d", "e")
        topic = await site.topic()
        targets = Targets(site.store, SnapshotRepository(site.database))

        async def floors(start: To) -> dict[LaneOf, Target]:
            _, found = await targets.find(topic, start)
            return found

        assert await floors("earliest") == {(0, 0): Target(0)}
        assert await floors("latest") == {(0, 0): Target(5, passes_open=True)}
        assert await floors(StartAt(offset=2)) == {(0, 0): Target(2)}
        assert await floors(StartAt(offset=4)) == {(0, 0): Target(4)}
        await site.store.truncate(*old, 2)
        assert await floors("earliest") == {(0, 0): Target(2)}
        await site.store.truncate(*old, 3)
        assert await floors("earliest") == {(0, 0): Target(3)}


async def test_a_released_message_is_acked_by_the_id_it_was_staged_under(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        group, queue = await where(site)
        batch = record_batch.encode(
            [Message(body, "text/plain", key="k") for body in (b"x", b"y", b"z")], 0
        )
        receipt = await site.store.appender(group, queue).append(batch, 3, StageExtras(None))
        await publish(site, "plain")
        assert await site.store.release(group, queue, [2, 0]) == [1, 2]
        messages = await pulled(site, 3)
        assert [m["data"] for m in messages] == ["plain", "z", "x"]
        ids = [str(message_id.staged(queue.topic_uid, 0, 0, number)) for number in (2, 0)]
        assert [m["message_id"] for m in messages[1:]] == ids
        assert receipt.base_offset == 0
        site.consumer.forwarder.staged.ids._places.clear()
        answer = await site.consumer.post("ack", {"message_ids": ids})
        assert answer.json() == {"acked": 2, "results": []}
        acks = await site.consumer.call("GET", MESSAGE + "/ack", topic="orders", id=ids[0])
        assert acks.json() == {"subscriptions": {"reader": {"state": "acked"}}}
