"""Topics whose creation or deletion a process left half-way: the process that repairs
leaves nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

from gateway.topics.lifecycle import TopicLifecycle
from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.errors import NotFound
from metadata.types import TopicSpec, TopicState
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from tests.integration.placement.placement_support import DyingStore, Site, until_dead


async def queues_of(site: Site, uid: bytes) -> list[QueueId]:
    """Return the topic's queues in the store."""
    found = [
        QueueId.unpack(info.queue)
        for group in site.store.groups
        for info in await site.store.queues(group)
    ]
    return [queue for queue in found if queue.topic_uid == uid]


def dying(site: Site, step: int, *, after: bool) -> TopicLifecycle:
    """Return the lifecycle of a process that dies at its n-th command to the store."""
    store = cast(StoreClient, DyingStore(site.store, step, after=after))
    return TopicLifecycle(site.topics, site.catalog, site.placements, store, site.choice)


async def age(site: Site) -> None:
    """Make unfinished topics old enough for another process to take them over."""

    async def work(connection: object) -> None:
        await connection.execute(  # type: ignore[attr-defined]
            "UPDATE topics SET updated_at = updated_at - interval '1 hour' WHERE state <> 'active'"
        )

    await site.database.statement(work, writes=True)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, 5))
async def test_a_deletion_left_half_way_is_finished(
    nodes: ChaosCluster, database: Database, step: int, after: bool
) -> None:
    """The topic has two partitions, so a deletion has two seals and two deletes."""
    async with Site.open(nodes, database, 2) as site:
        topic = await site.topic()
        assert len(await queues_of(site, topic.uid)) == 2
        assert await until_dead(
            dying(site, step, after=after).delete(site.tenant_id, "orders", None)
        )
        again = await site.lifecycle.create(site.tenant_id, TopicSpec("orders"), 1)
        await site.lifecycle._repair_once()
        left = await site.topics.get_by_uid(site.tenant_id, topic.uid)
        assert left.state is TopicState.DELETING, "who deletes it may be at it still"
        await age(site)
        await site.lifecycle._repair_once()
        assert await queues_of(site, topic.uid) == []
        with pytest.raises(NotFound):
            await site.topics.get_by_uid(site.tenant_id, topic.uid)
        assert (await site.topic()).uid == again.uid, "the namesake is untouched"
        assert len(await queues_of(site, again.uid)) == 1


async def test_what_was_left_is_looked_for_until_it_is_old_enough(
    nodes: ChaosCluster, database: Database
) -> None:
    after_s = 1.0
    async with Site.open(nodes, database, 2) as site:
        topic = await site.topic()
        assert await until_dead(dying(site, 1, after=True).delete(site.tenant_id, "orders", None))
        began_s = time.monotonic()
        lifecycle = TopicLifecycle(
            site.topics,
            site.catalog,
            site.placements,
            site.store,
            site.choice,
            repair_after_s=after_s,
        )
        repairing = asyncio.create_task(lifecycle.repair())
        try:
            async with asyncio.timeout(30):
                while await queues_of(site, topic.uid):
                    await asyncio.sleep(0.02)
        finally:
            repairing.cancel()
        assert time.monotonic() - began_s > after_s / 2, "who deletes it may be at it still"


@pytest.mark.parametrize("step", [1, 2])
async def test_a_creation_that_was_given_up_is_undone(
    nodes: ChaosCluster, database: Database, step: int
) -> None:
    async with Site.open(nodes, database, 1) as site:
        creating = dying(site, step, after=True).create(site.tenant_id, TopicSpec("half"), 3)
        assert await until_dead(creating)
        half = await site.topics.get(site.tenant_id, "half")
        assert half.state is TopicState.CREATING
        await age(site)
        await site.lifecycle._repair_once()
        assert await queues_of(site, half.uid) == []
        with pytest.raises(NotFound):
            await site.topics.get(site.tenant_id, "half")
        assert (await site.topic()).state is TopicState.ACTIVE


async def test_a_creation_that_is_repeated_is_finished(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        creating = dying(site, 2, after=False).create(site.tenant_id, TopicSpec("half"), 3)
        assert await until_dead(creating)
        made = await site.lifecycle.create(site.tenant_id, TopicSpec("half"), 3)
        assert made.state is TopicState.ACTIVE
        assert len(await queues_of(site, made.uid)) == 3
