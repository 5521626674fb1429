"""A topic with priorities on real store nodes: its lanes are moved and grown together."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from edge import message_id
from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.types import TopicSpec
from publish_forwarder.delays import Delay
from publish_forwarder.outcomes import Scheduled, StoredRange
from store_nodes.record_batch import Message
from tests.integration.placement.placement_support import Site
from tests.integration.placement.test_ids_and_delays import drained, scheduling
from tests.integration.placement.test_placement import move

PRIORITIES = 3
SPEC = TopicSpec("orders", priorities=PRIORITIES, ack_history=True)
KEYS = 4
KEY = "a key"


async def publish(
    site: Site, data: str, priority: int, key: str | None, **more: Any
) -> StoredRange:
    message = Message(data.encode(), "text/plain", key=key, priority=priority, **more)
    placed = await site.publisher.publish(site.tenant_id, "orders", message)
    assert isinstance(placed, StoredRange)
    return placed


async def test_lanes_move_and_grow_together_and_keep_the_order_of_keys(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 2, SPEC) as site:
        stopping = asyncio.Event()
        published = 0

        async def publisher(key: str, priority: int) -> None:
            nonlocal published
            number = 0
            while not stopping.is_set():
                placed = await publish(site, f"{key}/{priority}/{number}", priority, key)
                assert placed.receipts.lane == priority
                number, published = number + 1, published + 1
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as tasks:
            for number in range(KEYS * PRIORITIES):
                tasks.create_task(publisher(f"k{number // PRIORITIES}", number % PRIORITIES))
            await asyncio.sleep(0.2)
            assert await move(site)
            assert await site.mover.grow(site.tenant_id, "orders", 3)
            await asyncio.sleep(0.2)
            stopping.set()
        topic = await site.topic()
        assert (topic.partition_count, len(topic.sealed)) == (3, 3 * PRIORITIES)
        groups = defaultdict(set)
        for each in topic.partitions:
            groups[each.number].add(each.group)
        assert [len(of) for of in groups.values()] == [1, 1, 1]
        seen: dict[str, int] = {}
        messages: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while len(messages) < published:
                some = (await site.consumer.pull(500, wait_s=1)).json()["messages"]
                messages += some
                await site.consumer.ack(*some)
        for each in messages:
            lane, _, number = each["data"].rpartition("/")
            assert int(number) == seen.get(lane, -1) + 1, lane
            seen[lane] = int(number)
        assert await site.cursors.unbalanced() == []
        await check_states(site, messages[0])


async def check_states(site: Site, message: dict[str, Any]) -> None:
    """The topic keeps its history, so it is known when the message was acked."""
    assert message_id.parse(message["message_id"]).lane == message["priority"]
    path = "/topics/{topic}/messages/{id}/ack"
    answer = await site.consumer.call("GET", path, topic="orders", id=message["message_id"])
    state = answer.json()["subscriptions"]["reader"]
    assert (state["state"], "settled_at" in state) == ("acked", True)


async def test_a_key_is_known_in_all_lanes_also_after_its_partition_moved(
    nodes: ChaosCluster, database: Database
) -> None:
    """And what waits in a lane for its time comes from there."""
    async with Site.open(nodes, database, 1, SPEC) as site, scheduling(site):
        ids = [await staged(site, priority) for priority in range(PRIORITIES)]
        first = await publish(site, "x", 0, None, idempotency_key="once")
        again = await publish(site, "x", 2, None, idempotency_key="once")
        assert await move(site)
        moved = await publish(site, "x", 1, None, idempotency_key="once")
        assert [each.duplicate for each in (first, again, moved)] == [False, True, True]
        assert {(each.receipts.lane, each.base_offset) for each in (first, again, moved)} == {
            (0, first.base_offset)
        }
        messages = await drained(site, PRIORITIES + 1)
        found = {m["message_id"] for m in messages}
        assert len(found) == len(messages)
        assert set(ids) < found
        answer = await site.consumer.ack(*messages)
        assert answer.json()["acked"] == PRIORITIES + 1
        rows = await site.cursors.of_topic(site.tenant_id, (await site.topic()).uid)
        assert [(row.key.lane, row.counters.acked) for row in rows] == [(0, 2), (1, 1), (2, 1)]


async def staged(site: Site, priority: int) -> str:
    """Publish a message that is due soon; return its id."""
    scheduled = await site.publisher.publish(
        site.tenant_id,
        "orders",
        Message(b"later", "text/plain", key=KEY, priority=priority),
        delay=Delay(absolute=False, time_us=2_000_000),
    )
    assert isinstance(scheduled, Scheduled)
    uid = (await site.topic()).uid
    place = scheduled.generation, scheduled.base_stage, priority
    return str(message_id.staged(uid, 0, *place))
