"""Filters and skip rules over a real Postgres: what is delivered, and that every message counts."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
from msgspec.structs import replace

from metadata.database import Database
from metadata.subscriptions.skip_rules import SkipRuleRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.types import CursorState, Subscription, SubscriptionSpec
from store_nodes.record_batch import Message
from tests.integration.subscribe_forwarder.forwarder_support import Site, kill
from tests.unit.subscribe_forwarder.subscribe_support import Consumer


def message(number: int, kind: str) -> Message:
    body = msgspec.json.encode({"n": number})
    return Message(body, "application/json", attributes={"kind": kind})


def kind_of(number: int) -> str:
    return "wanted" if number % 50 == 7 else "bad" if number % 50 == 8 else "other"


def publish(site: Site, low: int, high: int, partitions: int = 1) -> None:
    """Publish in batches of 100, spread over the partitions."""
    for base in range(low, high, 100):
        batch = [message(number, kind_of(number)) for number in range(base, base + 100)]
        site.store.publish(*batch, partition=base // 100 % partitions)


async def drain(consumer: Consumer, seen: list[int], *, ack: bool = True) -> list[dict[str, Any]]:
    """Pull and ack everything that is there; return the messages of these pulls."""
    taken = []
    while pulled := await consumer.pulled(100, 0.3):
        seen += [one["data"]["n"] for one in pulled]
        taken += pulled
        if ack:
            assert (await consumer.ack(*pulled)).status == 200
    return taken


async def change(site: Site, **fields: Any) -> Subscription:
    def changed(present: Subscription) -> SubscriptionSpec:
        return replace(SubscriptionSpec("reader"), **fields)

    subscriptions = SubscriptionRepository(site.database)
    return await subscriptions.update(site.tenant_id, "reader", changed)


async def followed(consumer: Consumer, subscription: Subscription) -> None:
    """The forwarder goes by it."""
    async with asyncio.timeout(10):
        while True:
            hub = consumer.forwarder.open_hub(subscription.uid)
            if hub is not None and hub.subscription.version >= subscription.version:
                return
            await asyncio.sleep(0.01)


def balanced(rows: tuple[CursorState, ...]) -> bool:
    return all(
        row.read_to - row.start == row.counters.total() + row.exceptions + row.pending()
        for row in rows
    )


async def test_every_message_is_delivered_or_counted_over_restarts(database: Database) -> None:
    site = await Site.open(database, partitions=2, filter='attributes.kind in ["wanted", "bad"]')
    rule = {"expression": 'attributes.kind == "bad"', "reason": "bad", "created_by": "ann"}
    await SkipRuleRepository(database).add(site.tenant_id, "reader", **rule)
    seen: list[int] = []
    async with site.forwarder() as consumer:
        publish(site, 0, 2000, 2)
        await drain(consumer, seen)
        publish(site, 2000, 3000, 2)
        await consumer.pulled(3)
        await kill(consumer)
    async with site.forwarder() as consumer:
        await drain(consumer, seen)
    assert sorted(set(seen)) == [number for number in range(3000) if kind_of(number) == "wanted"]
    rows = await site.rows()
    assert balanced(rows)
    assert [row.read_to for row in rows] == [1500, 1500]
    counters = [row.counters for row in rows]
    assert sum(each.acked for each in counters) == 60
    assert sum(each.skipped for each in counters) == 60
    assert sum(each.filtered for each in counters) == 2880


async def test_a_changed_filter_holds_for_what_waits_and_what_comes(database: Database) -> None:
    site = await Site.open(database, filter='attributes.kind == "other"')
    seen: list[int] = []
    async with site.forwarder() as consumer:
        publish(site, 0, 100)
        leased = await consumer.pulled(10)
        changed = await change(site, filter='attributes.kind == "wanted"')
        await followed(consumer, changed)
        body = {"ack_ids": [one["ack_id"] for one in leased[:5]], "delay_seconds": 0}
        assert (await consumer.post("nack", body)).json()["done"] == 5
        assert (await consumer.ack(*leased[5:])).json()["acked"] == 5
        await drain(consumer, seen)
    assert seen == [57], "what failed was judged again; 7 was passed over by the old filter"
    row = await site.row()
    assert (row.counters.acked, row.counters.filtered) == (6, 94)
    assert balanced((row,))


async def test_random_changes_lose_nothing(database: Database) -> None:
    """Each message is delivered to somebody who acks it, filtered or skipped, exactly once."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    site = await Site.open(database)
    filters = [None, "data.n % 2 == 0", 'attributes.kind != "bad"', "data.missing == 1"]
    acked: set[int] = set()
    async with site.forwarder() as consumer:
        assert await consumer.pulled() == []  # it serves the subscription from now on
        for step in range(12):
            publish(site, step * 100, step * 100 + 100)
            changed = await change(site, filter=rng.choice(filters))
            if rng.random() < 0.5:
                await followed(consumer, changed)
            pulled = await consumer.pulled(rng.randrange(1, 200))
            numbers = [one["data"]["n"] for one in pulled]
            assert not acked & set(numbers)
            keep = [one for one in pulled if rng.random() < 0.7]
            failed = [one["ack_id"] for one in pulled if one not in keep]
            if keep:
                assert (await consumer.ack(*keep)).json()["acked"] == len(keep)
                acked |= {one["data"]["n"] for one in keep}
            if failed:
                await consumer.post("nack", {"ack_ids": failed, "delay_seconds": 0})
            assert balanced(await site.rows())
        await followed(consumer, await change(site, filter=None))
        rest: list[int] = []
        await drain(consumer, rest)
        assert not acked & set(rest)
    row = await site.row()
    assert balanced((row,))
    assert (row.floor, row.pending(), row.exceptions) == (1200, 0, 0)
    assert row.counters.acked == len(acked) + len(rest)
    assert row.counters.acked + row.counters.filtered == 1200
