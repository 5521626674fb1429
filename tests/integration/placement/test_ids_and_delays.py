"""Known ids and delayed messages outlive a move and a growth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edge import message_id
from edge.quota import STORED_BYTES
from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.tenancy.quotas import TenantLimit
from publish_forwarder.delays import Delay
from publish_forwarder.outcomes import Scheduled, StoredRange
from scheduler import settings as scheduler_settings
from scheduler.service import Scheduler
from store_nodes.record_batch import Message
from subscribe_forwarder.fleet import rendezvous
from tests.integration.placement.placement_support import Site
from tests.integration.placement.test_placement import CHANGES, Change


@asynccontextmanager
async def scheduling(site: Site) -> AsyncIterator[None]:
    scheduler = Scheduler(
        store=site.store,
        database=site.database,
        feed=site.feed,
        settings=scheduler_settings.load({}),
        home=rendezvous.home,
        stored_limits=TenantLimit(STORED_BYTES, {STORED_BYTES: 0}),
    )
    await scheduler.start()
    try:
        yield
    finally:
        await scheduler.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_an_id_is_known_after_its_partition_went_elsewhere(
    nodes: ChaosCluster, database: Database, change: Change
) -> None:
    async with Site.open(nodes, database, 2) as site:

        async def publish(number: int) -> StoredRange:
            message = Message(b"%d" % number, "text/plain", idempotency_key=f"order-{number}")
            placed = await site.publisher.publish(site.tenant_id, "orders", message)
            assert isinstance(placed, StoredRange)
            return placed

        first = [await publish(number) for number in range(8)]
        assert not any(placed.duplicate for placed in first)
        for _ in range(2):
            assert await change(site, None)
            again = [await publish(number) for number in range(8)]
            assert all(placed.duplicate for placed in again)
            assert [(p.partition, p.base_offset) for p in again] == [
                (p.partition, p.base_offset) for p in first
            ]
        fresh = [await publish(number) for number in range(8, 16)]
        assert not any(placed.duplicate for placed in fresh)
        data = [m["data"] for m in await drained(site, 16)]
        assert sorted(data, key=int) == [str(number) for number in range(16)]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_delayed_message_is_delivered_once_under_its_id_after_a_move(
    nodes: ChaosCluster, database: Database, change: Change
) -> None:
    async with Site.open(nodes, database, 1) as site, scheduling(site):
        ids = []
        due_us = int((time.time() + 4) * 1e6)
        for number in range(5):
            scheduled = await site.publisher.publish(
                site.tenant_id,
                "orders",
                Message(b"%d" % number, "text/plain", key=f"k{number}", deliver_at_us=due_us),
                delay=Delay(absolute=True, time_us=due_us),
            )
            assert isinstance(scheduled, Scheduled)
            uid = (await site.topic()).uid
            ids.append(str(message_id.staged(uid, 0, scheduled.generation, scheduled.base_stage)))
        assert await change(site, None)
        assert await change(site, None)
        messages = await drained(site, 5)
        assert sorted(m["data"] for m in messages) == [str(number) for number in range(5)]
        assert {m["message_id"] for m in messages} == set(ids)
        site.consumer.forwarder.staged.ids._places.clear()
        async with asyncio.timeout(20):
            while True:  # where a copy is, is written down right after it is made
                answer = await site.consumer.post("ack", {"message_ids": ids})
                if answer.json()["acked"] == 5:
                    break
                await asyncio.sleep(0.1)
        assert await site.consumer.pulled() == []
        assert await site.cursors.unbalanced() == []


async def drained(site: Site, count: int) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = []
    async with asyncio.timeout(40):
        while len(got) < count:
            got += await site.consumer.pulled(100, wait_s=5)
    return got
