"""Moves and growths under load, on real store nodes and Postgres: nobody notices but the order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from gateway.topics import placement
from gateway.topics.placement import Mover, queue_of, successors
from harness.cluster import ChaosCluster
from metadata import idle_poll
from metadata.database import Database
from metadata.types import Partition, Placement, Topic
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, StoreError
from store_nodes.queue_id import QueueId
from tests.integration.placement.placement_support import (
    DyingStore,
    Load,
    Site,
    until_dead,
)
from tests.unit.subscribe_forwarder.subscribe_support import topic as topic_of

LOAD_S = 1.0
"""Seconds of load before a change, and after it."""


async def move(site: Site, mover: Mover | None = None) -> bool:
    group = await site.other_group()
    return await (mover or site.mover).move(site.tenant_id, "orders", 0, group)


async def grow(site: Site, mover: Mover | None = None) -> bool:
    count = len((await site.topic()).partitions)
    return await (mover or site.mover).grow(site.tenant_id, "orders", 2 * count)


Change = Callable[[Site, Mover | None], Coroutine[Any, Any, bool]]
CHANGES: list[Change] = [move, grow]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("partitions", [1, 3])
async def test_under_load(
    nodes: ChaosCluster, database: Database, change: Change, partitions: int
) -> None:
    async with Site.open(nodes, database, partitions) as site:
        async with Load(site) as load:
            await asyncio.sleep(LOAD_S)
            assert await change(site, None)
            await asyncio.sleep(LOAD_S)
        assert load.failures == {"keyed": [], "unkeyed": []}
        await load.check()
        after = await site.topic()
        assert len(after.sealed) == (1 if change is move else partitions)
        assert len(after.partitions) == (partitions if change is move else 2 * partitions)
        used = {partition for partition, _ in load.published}
        assert used == {p.number for p in after.partitions}, "the new partitions are used"
        assert len(load.published) > 500
        print(f"{len(load.published)} messages; slowest publish {load.slowest_s:.3f} s")


async def test_many_changes_one_after_the_other_under_load(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        async with Load(site) as load:
            for change in (move, grow, move, move, grow, move):
                await asyncio.sleep(0.3)
                assert await change(site, None)
        assert load.failures == {"keyed": [], "unkeyed": []}
        await load.check()
        generations = (await site.topic()).generations(0)
        assert [g.generation for g in generations] == list(range(7))


@pytest.mark.parametrize(
    ("change", "step"), [(move, 1), (move, 2), *((grow, step) for step in range(1, 7))]
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_mover_killed_at_any_step_is_followed_by_another(
    nodes: ChaosCluster, database: Database, change: Change, step: int, after: bool
) -> None:
    """The topic has two partitions: a move is one seal and one create, a growth two seals
    and four creates.
    """
    async with Site.open(nodes, database, 2) as site:
        dying = cast(StoreClient, DyingStore(site.store, step, after=after))
        async with Load(site) as load:
            await asyncio.sleep(0.2)
            assert await until_dead(change(site, Mover(site.placements, dying, site.choice)))
            now = await site.repaired()
            await asyncio.sleep(0.2)
        assert load.failures == {"keyed": [], "unkeyed": []}
        await load.check()
        assert len(now.partitions) == (2 if change is move else 4)
        assert len(now.sealed) == (1 if change is move else 2)


async def test_a_mover_killed_before_the_end_is_committed(
    nodes: ChaosCluster, database: Database
) -> None:
    """All is done in the store; publishers wait for Postgres to say so."""
    async with Site.open(nodes, database, 2) as site:
        async with Load(site) as load:
            await asyncio.sleep(0.2)
            found = await site.placements.start_move(
                site.tenant_id, "orders", 0, await site.other_group()
            )
            assert isinstance(found, Placement)
            (old,), (new,) = found.sealing, found.opening
            successor = queue_of(found.topic.uid, new)
            end = await site.store.seal(
                old.group, queue_of(found.topic.uid, old), [(new.group, successor)]
            )
            assert end > 0
            await asyncio.sleep(0.5)
            await site.repaired()
        assert load.failures == {"keyed": [], "unkeyed": []}
        await load.check()


@pytest.mark.parametrize("change", CHANGES)
async def test_the_leader_of_the_group_dies_in_the_middle(
    nodes: ChaosCluster, database: Database, change: Change
) -> None:
    async with Site.open(nodes, database, 2) as site:
        topic = await site.topic()
        leader = site.store.leader(topic.partitions[0].group)
        assert leader is not None
        async with Load(site) as load:
            await asyncio.sleep(0.5)
            changing = asyncio.create_task(change(site, None))
            nodes.kill_node(leader)
            await changing
            await site.repaired()
            nodes.start_node(leader)
            await asyncio.sleep(0.5)
        assert load.failures["unkeyed"] == []
        assert load.failures["keyed"] == []
        await load.check()


def without_leader(store: StoreClient, group: int) -> StoreClient:
    """Return the store as a client sees it that knows no leader of the group."""

    class NoLeader:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def has_leader(self, of: int) -> bool:
            return of != group and store.has_leader(of)

    return cast(StoreClient, NoLeader())


async def test_a_target_without_a_leader_leaves_the_partition_as_it_is(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        group = await site.other_group()
        blind = without_leader(site.store, group)
        async with Load(site) as load:
            mover = Mover(site.placements, blind, site.choice)
            assert not await mover.move(site.tenant_id, "orders", 0, group)
            await asyncio.sleep(0.5)
            assert len(load.published) > 50, "nothing was sealed"
            assert (await site.repaired()).partitions[0].group == group
        assert load.failures == {"keyed": [], "unkeyed": []}
        await load.check()


async def test_a_repair_that_has_found_nothing_looks_again_after_a_change(
    nodes: ChaosCluster, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_poll, "ANYWAY_EVERY_S", 1e9)
    monkeypatch.setattr(placement, "REPAIR_EVERY_S", 0.05)
    async with Site.open(nodes, database, 1) as site:
        looking = Mover(site.placements, site.store, site.choice, site.feed.version)
        looks = 0
        unfinished = site.placements.unfinished

        async def counted(limit: int = 100) -> list[Placement]:
            nonlocal looks
            looks += 1
            return await unfinished(limit)

        monkeypatch.setattr(site.placements, "unfinished", counted)
        repair = asyncio.create_task(looking.repair())
        try:
            await asyncio.sleep(2.0)
            before = looks
            await asyncio.sleep(1.0)
            assert looks == before > 0, "nothing has changed"
            group = await site.other_group()
            mover = Mover(site.placements, without_leader(site.store, group), site.choice)
            assert not await mover.move(site.tenant_id, "orders", 0, group)
            async with asyncio.timeout(60):
                while (await site.topic()).partitions[0].group != group:
                    await asyncio.sleep(0.05)
        finally:
            repair.cancel()
            await asyncio.gather(repair, return_exceptions=True)


async def test_the_sealed_queue_says_what_follows_it(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 2) as site:
        before = await site.topic()
        assert await grow(site)
        after = await site.topic()
        for partition in before.partitions:
            listed = {info.queue: info for info in await site.store.queues(partition.group)}
            info = listed[queue_of(before.uid, partition).pack()]
            assert info.sealed
            wanted = [p for p in after.partitions if p.number % 2 == partition.number]
            assert info.successors == tuple(
                (p.group, queue_of(after.uid, p).pack()) for p in wanted
            )


async def test_deleting_a_topic_deletes_every_generation(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        for change in (move, grow):
            assert await change(site, None)
        topic = await site.topic()
        intent = await site.placements.start_move(
            site.tenant_id, "orders", 0, await site.other_group()
        )
        assert isinstance(intent, Placement)
        await site.lifecycle.delete(site.tenant_id, "orders", None)
        left = [
            QueueId.unpack(info.queue)
            for group in site.store.groups
            for info in await site.store.queues(group)
        ]
        assert [queue for queue in left if queue.topic_uid == topic.uid] == []
        (opening,) = intent.opening
        with pytest.raises(StoreError):  # a mover that was late brings nothing back
            await site.store.create(opening.group, queue_of(topic.uid, opening), 0)


async def test_a_mover_meets_a_topic_that_is_being_deleted(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 2) as site:
        topic = await site.topic()
        intent = await site.placements.start_grow(site.tenant_id, "orders", [0, 1, 2])
        assert isinstance(intent, Placement)
        await asyncio.gather(
            site.lifecycle.delete(site.tenant_id, "orders", None),
            site.mover.carry_out(intent),
            return_exceptions=True,
        )
        await site.lifecycle._repair_once()
        left = [
            QueueId.unpack(info.queue)
            for group in site.store.groups
            for info in await site.store.queues(group)
        ]
        assert [queue for queue in left if queue.topic_uid == topic.uid] == []


async def test_a_sealed_generation_goes_when_nobody_can_want_it(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        async with Load(site) as load:
            await asyncio.sleep(0.2)
            assert await move(site)
        await load.check()
        topic = await site.topic()
        (sealed,) = topic.sealed

        async def forget(*, trimmed_to: int, age_s: int) -> bool:
            async def work(connection: Any) -> None:
                await connection.execute(
                    "UPDATE partitions SET trimmed_to = $2, sealed_time_us = sealed_time_us - $3"
                    " WHERE topic_uid = $1 AND sealed_at IS NOT NULL",
                    topic.uid,
                    trimmed_to,
                    age_s * 1_000_000,
                )

            await database.statement(work, writes=True)
            await site.mover.collect()
            return not (await site.topic()).sealed

        assert not await forget(trimmed_to=sealed.sealed_at - 1, age_s=86_400), "not all trimmed"
        assert not await forget(trimmed_to=sealed.sealed_at, age_s=-86_400), "its ids are known"
        queue = queue_of(topic.uid, sealed)
        assert (await site.store.offsets(sealed.group, queue)).end == sealed.sealed_at
        assert await forget(trimmed_to=sealed.sealed_at, age_s=86_400)
        with pytest.raises(QueueNotFound):
            await site.store.offsets(sealed.group, queue)
        await site.mover.collect()
        async with Load(site) as load:
            await asyncio.sleep(0.2)
        assert load.failures == {"keyed": [], "unkeyed": []}


def test_the_successors_of_a_growth_are_where_the_keys_go() -> None:
    topic: Topic = topic_of(4)
    opening = tuple(Partition(n, n, 0, 1 if n < 4 else 0) for n in range(6))
    intent = Placement(b"", "grow", topic, topic.partitions, opening)
    following = successors(intent)
    for number in range(4):
        sharing = {h % 6 for h in range(12) if h % 4 == number}
        assert {queue.partition for _, queue in following[number, 0]} == sharing
    alone = Placement(b"", "move", topic, topic.partitions[2:3], (Partition(2, 9, 0, 1),))
    assert successors(alone) == {(2, 0): [(9, QueueId(topic.uid, 2, 0, 1))]}
