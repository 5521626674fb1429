"""Ack state on a real Postgres: what was answered is there, whatever is restarted, cut or lost."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

import pytest

from metadata.database import Database
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.leases import LeaseRepository
from metadata.ids import new_uid
from metadata.lease import LEASE_S
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Counters, Unit
from tests.integration.metadata.proxy import Proxy
from tests.integration.subscribe_forwarder.forwarder_support import Site, kill, subscribe


async def test_an_answered_ack_is_in_postgres(database: Database) -> None:
    site = await Site.open(database)
    async with site.forwarder() as consumer:
        site.store.publish(*[b"%d" % i for i in range(10)])
        messages = await consumer.pulled()
        answer = await consumer.ack(*messages[:3], messages[5], by="message_id")
        assert answer.json() == {"acked": 4, "results": []}
        row = await site.row()
        assert (row.floor, row.read_to, row.acked) == (3, 10, ((5, 6),))
        assert row.counters == Counters(acked=4)


async def test_a_restart_loses_no_ack_and_delivers_the_rest_again(database: Database) -> None:
    site = await Site.open(database, partitions=3)
    async with site.forwarder() as consumer:
        for partition in range(3):
            site.store.publish(*[b"%d" % i for i in range(10)], partition=partition)
        messages = []
        while batch := await consumer.pulled(100):
            messages += batch
        await consumer.ack(*messages[::2])
    async with site.forwarder() as consumer:
        again = []
        while batch := await consumer.pulled(100):
            again += batch
        assert {m["message_id"] for m in again} == {m["message_id"] for m in messages[1::2]}
        answer = await consumer.ack(*messages)
        assert answer.json()["acked"] == 30
        assert [row.floor for row in await site.rows()] == [10, 10, 10]


async def test_a_second_forwarder_waits_for_a_clean_stop(database: Database) -> None:
    site = await Site.open(database)
    async with site.forwarder() as first, site.forwarder(wait=False) as second:
        await asyncio.sleep(0.3)
        assert second.forwarder.not_ready_reason() is not None
        assert (await second.pull()).status == 503
        began = time.monotonic()
        await first.forwarder.close()
        await second.ready()
        assert time.monotonic() - began < LEASE_S - 1


async def test_a_second_forwarder_waits_for_a_dead_ones_lease(database: Database) -> None:
    site = await Site.open(database)
    async with site.forwarder() as first, site.forwarder(wait=False) as second:
        site.store.publish(b"a", b"b")
        (acked, _) = await first.pulled()
        await first.ack(acked)
        await kill(first)
        began = time.monotonic()
        await asyncio.sleep(1)
        assert second.forwarder.not_ready_reason() is not None
        await second.ready()
        assert time.monotonic() - began < LEASE_S + 2
        assert [m["data"] for m in await second.pulled()] == ["b"]


async def test_a_lost_epoch_writes_nothing(database: Database) -> None:
    site = await Site.open(database)
    async with site.forwarder() as consumer:
        site.store.publish(b"a")
        (message,) = await consumer.pulled()
        thief = new_uid()
        await LeaseRepository(database).register(thief, role="test")
        key = Unit(site.tenant_id, site.topic.uid, 0)
        assignments = AssignmentRepository(database)
        await assignments.release(consumer.forwarder.incarnation)
        assert key in await assignments.claim(thief, [key])
        answer = await consumer.ack(message)
        assert answer.status == 503
        assert (await site.row()).counters == Counters()
        await asyncio.sleep(0.2)
        assert (await consumer.pull()).status == 503
        await assignments.release(thief)
        (again,) = await consumer.pulled()
        assert (await consumer.ack(again)).json()["acked"] == 1


async def test_postgres_cut_off_answers_503_and_heals(database: Database) -> None:
    site = await Site.open(database)
    proxy = Proxy(database.settings.url)
    settings = replace(database.settings, url=await proxy.start(), deadline_s=1.0)
    behind = Database(settings)
    await behind.connect()
    try:
        async with site.forwarder(behind) as consumer:
            site.store.publish(b"a", b"b", b"c")
            messages = await consumer.pulled(2)
            proxy.requests.clear()
            proxy.cut()
            messages += await consumer.pulled(1)
            assert len(messages) == 3, "hand-outs go on until the lease ends"
            assert (await consumer.ack(messages[0])).status == 503
            waiting = asyncio.create_task(consumer.pull(wait_s=60))
            await asyncio.sleep(LEASE_S)
            assert (await consumer.pull()).status == 503
            assert (await consumer.ack(messages[1])).status == 503
            proxy.requests.set()
            proxy.cut()
            async with asyncio.timeout(20):
                await consumer.ready()
                while (answer := await consumer.ack(*messages)).status == 503:
                    await asyncio.sleep(0.1)
            assert answer.json()["acked"] == 3
            assert (await site.row()).counters == Counters(acked=3)
            assert not waiting.done()
            site.store.publish(b"d")
            assert [m["data"] for m in (await waiting).json()["messages"]] == ["d"]
    finally:
        await behind.close()
        await proxy.close()


@pytest.mark.parametrize("cut", ["requests", "answers"])
async def test_a_flush_cut_off_is_never_half_true(database: Database, cut: str) -> None:
    """The statement or only its answer was lost; after healing, all agree."""
    site = await Site.open(database)
    proxy = Proxy(database.settings.url)
    settings = replace(database.settings, url=await proxy.start(), deadline_s=1.0)
    behind = Database(settings)
    await behind.connect()
    try:
        async with site.forwarder(behind) as consumer:
            site.store.publish(*[b"%d" % i for i in range(10)])
            messages = await consumer.pulled()
            await consumer.ack(messages[0])
            getattr(proxy, cut).clear()
            ack = asyncio.create_task(consumer.ack(messages[1]))
            await asyncio.sleep(0.2)
            proxy.cut()
            assert (await ack).status == 503
            getattr(proxy, cut).set()
            proxy.cut()
            async with asyncio.timeout(20):
                while (answer := await consumer.ack(*messages[:3])).status == 503:
                    await asyncio.sleep(0.1)
            assert answer.json()["acked"] == 3
            row = await site.row()
            assert (row.floor, row.counters) == (3, Counters(acked=3))
            assert await CursorRepository(database).unbalanced() == []
    finally:
        await behind.close()
        await proxy.close()


async def test_a_subscription_is_usable_at_once_and_gone_when_deleted(database: Database) -> None:
    site = await Site.open(database)
    async with site.forwarder() as consumer:
        site.store.publish(b"a")
        await subscribe(database, site.topic, "second")
        answer = await consumer.pull(name="second")
        (message,) = answer.json()["messages"]
        answer = await consumer.post("ack", {"ack_id": message["ack_id"]}, name="second")
        assert answer.json()["acked"] == 1
        waiting = asyncio.create_task(consumer.pull(wait_s=30, name="second"))
        await asyncio.sleep(0.05)
        await SubscriptionRepository(database).delete(site.tenant_id, "second")
        async with asyncio.timeout(5):
            assert (await waiting).status == 404


async def test_a_topic_deleted_and_made_again_shares_nothing(database: Database) -> None:
    site = await Site.open(database)
    topics = TopicRepository(database)
    async with site.forwarder() as consumer:
        site.store.publish(b"old")
        (old,) = await consumer.pulled()
        await topics.mark_deleting(site.tenant_id, "orders")
        await topics.remove(site.tenant_id, site.topic.uid)
        again = await Site.open(database)
        assert again.topic.uid != site.topic.uid
        async with asyncio.timeout(5):
            while (await consumer.pull()).status != 404:
                await asyncio.sleep(0.05)
            wanted = [Unit(again.tenant_id, again.topic.uid, 0)]
            while [owner.key for owner in consumer.forwarder.owners] != wanted:
                await asyncio.sleep(0.05)
        consumer.tenant_id = again.tenant_id
        assert await consumer.pulled() == []
        assert (await consumer.ack(old)).json()["acked"] == 0


async def test_random_work_over_restarts_delivers_all_and_balances(database: Database) -> None:
    """Pulls, acks, nacks and forwarders killed or stopped: nothing acked comes again."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    site = await Site.open(database, partitions=2, ack_deadline_s=60.0)
    cursors = CursorRepository(database)
    for partition in range(2):
        for _ in range(15):
            bodies = [b"%d" % i for i in range(rng.randrange(1, 12))]
            site.store.publish(*bodies, partition=partition)
    total = sum(queue.end for queue in site.store.queues.values())
    acked: set[str] = set()
    for _ in range(5):
        async with site.forwarder(lazy_flush_s=0.01) as consumer:
            for _ in range(8):
                messages = await consumer.pulled(rng.randrange(1, 20))
                assert not acked & {m["message_id"] for m in messages}
                some = [m for m in messages if rng.random() < 0.6]
                if some:
                    by = rng.choice(["ack_id", "message_id"])
                    assert (await consumer.ack(*some, by=by)).json()["acked"] == len(some)
                    acked |= {m["message_id"] for m in some}
                for message in messages:
                    if message not in some and rng.random() < 0.5:
                        await consumer.post(
                            "nack", {"ack_id": message["ack_id"], "delay_seconds": 0}
                        )
                assert await cursors.unbalanced() == []
    async with site.forwarder() as consumer:
        while messages := await consumer.pulled(100):
            assert not acked & {m["message_id"] for m in messages}
            await consumer.ack(*messages)
            acked |= {m["message_id"] for m in messages}
        assert len(acked) == total
        assert sum(row.floor for row in await site.rows()) == total
