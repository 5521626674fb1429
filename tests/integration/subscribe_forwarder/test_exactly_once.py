"""Exactly once on a real Postgres: each message's effects, counted by accepted acks, are one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

from metadata.database import Database
from metadata.delivery.cursors import CursorRepository
from metadata.types import Counters, RetryPolicy
from tests.integration.metadata.proxy import Proxy
from tests.integration.subscribe_forwarder.forwarder_support import Site, kill
from tests.unit.subscribe_forwarder.subscribe_support import Consumer

AT_ONCE = RetryPolicy(min_backoff_s=0.0)


def statuses(answer: Any) -> list[tuple[int, str]]:
    return [(each["index"], each["type"].rpartition("/")[2]) for each in answer.json()["results"]]


async def test_only_the_present_lease_acks_and_may_repeat_it(database: Database) -> None:
    site = await Site.open(database, delivery="exactly_once", retry=AT_ONCE)
    async with site.forwarder() as consumer:
        site.store.publish(b"a", b"b")
        a, b = await consumer.pulled()
        answer = await consumer.ack(a, by="message_id")
        assert statuses(answer) == [(0, "ack-id-required")]
        assert (await consumer.ack(a)).json() == {"acked": 1, "results": []}
        assert (await consumer.ack(a)).json() == {"acked": 1, "results": []}
        await consumer.post("nack", {"ack_id": b["ack_id"]})
        (again,) = await consumer.pulled(wait_s=5)
        assert statuses(await consumer.ack(b)) == [(0, "lease-expired")]
        await consumer.post("release", {"ack_id": again["ack_id"]})
        (third,) = await consumer.pulled()
        assert (third["attempt"], third["ack_id"] != again["ack_id"]) == (2, True)
        assert statuses(await consumer.ack(again)) == [(0, "lease-expired")]
        assert (await consumer.ack(third)).json()["acked"] == 1
        assert (await site.row()).counters == Counters(acked=2)


async def test_a_lease_outlives_its_owner(database: Database) -> None:
    """Messages leased by the dead forwarder are not delivered before their deadline, and
    their ack ids count.
    """
    site = await Site.open(database, delivery="exactly_once")
    async with site.forwarder() as first:
        site.store.publish(b"a", b"b", b"c")
        a, b = await first.pulled(2)
        await first.ack(a)
        await kill(first)
    async with site.forwarder() as second:
        assert [m["data"] for m in await second.pulled()] == ["c"]
        assert (await second.ack(a)).json() == {"acked": 1, "results": []}, "a repeat"
        assert (await second.ack(b)).json() == {"acked": 1, "results": []}
        assert (await site.row()).counters == Counters(acked=2)
        assert await CursorRepository(database).unbalanced() == []


async def test_cuts_restarts_and_dying_workers_leave_one_accepted_ack_each(
    database: Database,
) -> None:
    """Workers stall until others have their messages, commits are cut off, and the forwarder is
    killed.

    A worker that does not know whether its ack counted asks until it does.
    """
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    site = await Site.open(database, delivery="exactly_once", retry=AT_ONCE, ack_deadline_s=1.0)
    proxy = Proxy(database.settings.url)
    settings = replace(database.settings, url=await proxy.start(), deadline_s=1.0)
    behind = Database(settings)
    await behind.connect()
    total = 120
    site.store.publish(*[b"%d" % n for n in range(total)])
    accepted: Counter[int] = Counter()
    stalled: list[dict[str, Any]] = []
    try:
        for part in range(2):
            async with site.forwarder(behind) as consumer:
                target = (part + 1) * total // 2
                workers = [
                    asyncio.create_task(_work(consumer, rng, accepted, stalled, target))
                    for _ in range(3)
                ]
                for _ in range(4):
                    await asyncio.sleep(rng.uniform(0.05, 0.25))
                    await _cut(proxy, rng)
                async with asyncio.timeout(40):
                    await asyncio.gather(*workers)
                    while stalled:
                        await _ack(consumer, stalled.pop(), accepted)
                if part < 1:
                    await kill(consumer)
        assert {offset: accepted[offset] for offset in range(total)} == dict.fromkeys(
            range(total), 1
        )
        assert (await site.row()).counters == Counters(acked=total)
        assert await CursorRepository(database).unbalanced() == []
    finally:
        await behind.close()
        await proxy.close()


async def _work(
    consumer: Consumer,
    rng: random.Random,
    accepted: Counter[int],
    stalled: list[dict[str, Any]],
    target: int,
) -> None:
    while accepted.total() < target:
        answer = await consumer.pull(rng.randrange(1, 9), wait_s=0.2)
        if answer.status != 200:
            await asyncio.sleep(0.05)
            continue
        for message in answer.json()["messages"]:
            if rng.random() < 0.15:
                stalled.append(message)
            else:
                await _ack(consumer, message, accepted)


async def _ack(consumer: Consumer, message: dict[str, Any], accepted: Counter[int]) -> None:
    """Ack until an answer comes."""
    while (answer := await consumer.ack(message)).status == 503:
        await asyncio.sleep(0.05)
    assert answer.status == 200
    accepted[message["offset"]] += answer.json()["acked"]


async def _cut(proxy: Proxy, rng: random.Random) -> None:
    """Holds one direction for a moment, then breaks every connection."""
    gate = rng.choice([proxy.requests, proxy.answers])
    gate.clear()
    await asyncio.sleep(0.1)
    proxy.cut()
    gate.set()
