"""Seeks and snapshots on a real Postgres: fenced, balanced, never below what is trimmed."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import replace
from typing import Any

import pytest

from metadata.delivery.deliveries import DeliveryLease, Reason
from metadata.errors import Conflict, NotFound
from metadata.subscriptions.seeks import SeekRepository, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.topics.retention import LaneKey, RetentionRepository
from metadata.types import (
    Counters,
    CursorState,
    Subscription,
    Topic,
    Unit,
)
from tests.integration.metadata.world import World, settled

LANE = (0, 0)
WEEK_S = 7 * 86_400.0


class Place:
    """One partition, claimed by a forwarder, and a subscription in it."""

    def __init__(
        self, world: World, topic: Topic, subscription: Subscription, owner: bytes
    ) -> None:
        self.world = world
        self.topic = topic
        self.subscription = subscription
        self.owner = owner
        self.seeks = SeekRepository(world.database)
        self.snapshots = SnapshotRepository(world.database)

    @classmethod
    async def open(cls, world: World, partitions: int = 1) -> Place:
        topic = await world.topic(partitions=partitions)
        subscription = await world.subscription(topic)
        owner = await world.forwarder()
        await world.claim(owner, topic)
        return cls(world, topic, subscription, owner)

    async def row(self) -> CursorState:
        rows = await self.world.cursors.of_subscription(self.world.tenant_id, self.subscription.uid)
        return rows[0]

    async def flushed(self, floor: int, read_to: int, *acked: tuple[int, int]) -> None:
        update = settled(await self.row(), floor=floor, read_to=read_to, acked=acked)
        assert await self.world.cursors.flush([update])

    async def hole(self, offset: int) -> None:
        """Step over an offset as a flush does: write its row, and count it in the cursor."""

        async def work(connection: Any) -> None:
            keys = (self.world.tenant_id, self.subscription.uid, offset)
            await connection.execute(
                "INSERT INTO deliveries (tenant_id, subscription_uid, partition, lane,"
                " message_offset, attempts, reason) VALUES ($1, $2, 0, 0, $3, 0, $4)",
                *keys,
                Reason.HOLE.value,
            )
            await connection.execute(
                "UPDATE cursors SET exceptions = exceptions + 1, acked_total = acked_total - 1"
                " WHERE tenant_id = $1 AND subscription_uid = $2 AND partition = 0",
                *keys[:2],
            )

        await self.world.database.transaction(work)

    async def seek(self, target: Target) -> int:
        sought = await self.seeks.seek(self.world.tenant_id, self.subscription.uid, {LANE: target})
        return sought.generation

    async def trim(self, offset: int) -> None:
        key = LaneKey(self.world.tenant_id, self.topic.uid, 0, 0)
        await RetentionRepository(self.world.database).trim(key, offset, past_pins=True)

    async def snapshot(self, name: str = "before", expires_in_s: float = WEEK_S) -> None:
        await self.snapshots.create(
            self.world.tenant_id,
            self.subscription.name,
            name,
            expires_in_s=expires_in_s,
            labels={"why": "deploy"},
        )

    async def target(self, name: str = "before") -> Target:
        snapshot = await self.snapshots.get(self.world.tenant_id, name)
        return (await self.snapshots.targets(snapshot))[LANE]

    async def pinned(self) -> list[int]:
        async def work(connection: Any) -> list[int]:
            rows = await connection.fetch("SELECT pinned_offset FROM pins ORDER BY partition")
            return [row[0] for row in rows]

        return await self.world.database.statement(work, writes=False)

    async def holes(self) -> list[int]:
        async def work(connection: Any) -> list[int]:
            rows = await connection.fetch("SELECT message_offset FROM deliveries ORDER BY 1")
            return [row[0] for row in rows]

        return await self.world.database.statement(work, writes=False)

    async def balanced(self) -> bool:
        return await self.world.cursors.unbalanced() == []


async def test_a_seek_begins_a_generation_and_fences_the_one_before(world: World) -> None:
    place = await Place.open(world)
    await place.flushed(4, 10, (6, 8))
    await place.hole(2)
    before = await place.row()
    generation = await place.seek(Target(3))
    row = await place.row()
    assert generation == row.generation == before.generation + 1
    assert (row.start, row.floor, row.read_to, row.acked) == (2, 3, 3, ()), "2 is not acked"
    assert (row.counters, row.exceptions, row.epoch) == (Counters(), 1, before.epoch)
    assert await place.balanced()
    late = settled(before, floor=10, read_to=10)
    assert not await world.cursors.flush([late])
    assert (await place.row()).floor == 3
    await world.feed.catch_up()
    found = await world.catalog.subscription(world.tenant_id, "billing")
    assert (found.generation, found.version > place.subscription.version) == (generation, True)


async def test_a_dry_run_changes_nothing(world: World) -> None:
    place = await Place.open(world)
    await place.flushed(4, 10, (6, 8))
    await place.hole(2)
    before = await place.row()
    version = (await world.subscriptions.get(world.tenant_id, "billing")).version
    sought = await place.seeks.seek(
        world.tenant_id,
        place.subscription.uid,
        {LANE: Target(1, 9, ((3, 5),))},
        dry_run=True,
    )
    assert (sought.generation, sought.positions) == (before.generation + 1, {LANE: (1, 2)})
    assert await place.row() == before
    assert await place.holes() == [2]
    assert (await world.subscriptions.get(world.tenant_id, "billing")).version == version


async def test_a_seek_goes_no_lower_than_what_is_trimmed(world: World) -> None:
    place = await Place.open(world)
    await place.flushed(20, 20)
    await place.trim(12)
    await place.seek(Target(5))
    row = await place.row()
    assert (row.start, row.floor) == (12, 12)
    assert await place.balanced()


async def test_a_seek_waits_for_a_trim_that_is_under_way(world: World) -> None:
    place = await Place.open(world)
    await place.flushed(20, 20)
    locked, commit = asyncio.Event(), asyncio.Event()

    async def slow_trim(connection: Any) -> None:
        await connection.execute(
            "SELECT FROM partitions WHERE topic_uid = $1 FOR UPDATE", place.topic.uid
        )
        locked.set()
        await commit.wait()
        await connection.execute(
            "UPDATE partitions SET trimmed_to = 12 WHERE topic_uid = $1", place.topic.uid
        )

    trimming = asyncio.create_task(world.database.transaction(slow_trim))
    await locked.wait()
    seeking = asyncio.create_task(place.seek(Target(5)))
    done, _ = await asyncio.wait({seeking}, timeout=0.2)
    assert not done
    commit.set()
    await trimming
    await seeking
    row = await place.row()
    assert (row.start, row.floor) == (12, 12)


async def test_cursors_without_a_target_stay(world: World) -> None:
    place = await Place.open(world, partitions=2)
    rows = await world.cursors.of_subscription(world.tenant_id, place.subscription.uid)
    await world.cursors.flush([settled(row, floor=7, read_to=9) for row in rows])
    await place.seek(Target(1))
    first, second = await world.cursors.of_subscription(world.tenant_id, place.subscription.uid)
    assert (first.floor, second.floor, second.counters.acked) == (1, 7, 7)
    assert first.generation == second.generation
    assert await place.balanced()


async def test_a_seek_of_what_is_gone(world: World) -> None:
    place = await Place.open(world)
    await world.subscriptions.delete(world.tenant_id, "billing")
    with pytest.raises(NotFound):
        await place.seek(Target(0))


async def test_a_snapshot_holds_what_was_unacked_and_a_seek_brings_it_back(world: World) -> None:
    place = await Place.open(world)
    await place.flushed(10, 20, (12, 15))
    await place.hole(4)
    await place.hole(13)
    await place.snapshot()
    target = await place.target()
    assert target == Target(4, 20, ((5, 10), (12, 13), (14, 15)))
    assert await place.pinned() == [4]
    await place.flushed(30, 30)
    await place.seek(target)
    row = await place.row()
    assert (row.start, row.floor, row.read_to) == (4, 4, 20)
    assert row.acked == target.acked
    assert (row.counters, row.exceptions) == (Counters(acked=7), 0)
    assert await place.balanced()


async def test_what_only_a_stepped_over_offset_keeps_stays_open(world: World) -> None:
    """Below what is trimmed single messages are stored, for as long as a row names them."""
    place = await Place.open(world)
    await place.flushed(10, 20, (12, 15))
    await place.hole(4)
    await place.trim(10)
    await place.snapshot()
    assert await place.pinned() == [10]
    await place.seek(await place.target())
    row = await place.row()
    assert (row.start, row.floor, row.acked) == (4, 10, ((12, 15),))
    assert await place.holes() == [4]
    assert await place.balanced()


@pytest.mark.parametrize(
    ("target", "holes"),
    [
        (Target(0), [4, 7]),
        (Target(6), [4, 7]),
        (Target(12), [4, 7]),
        (Target(20), [4, 7]),
        (Target(21), []),
        (Target(12, passes_open=True), []),
    ],
)
async def test_a_seek_back_keeps_open_deliveries_and_one_forward_passes_over_them(
    world: World, target: Target, holes: list[int]
) -> None:
    place = await Place.open(world)
    await place.flushed(20, 22)
    await place.hole(4)
    await place.hole(7)
    await place.trim(10)
    await place.seek(target)
    row = await place.row()
    floor = max(target.offset, 10)
    assert (row.start, row.floor, row.read_to) == (min([floor, *holes]), floor, floor)
    assert await place.holes() == holes
    assert await place.balanced()


async def test_a_seek_leaves_no_exactly_once_lease_behind(world: World) -> None:
    """Otherwise an ack of an earlier delivery, or its repeat, would find the lease again."""
    place = await Place.open(world)
    row = await place.row()
    lease = DeliveryLease(1, row.epoch.era, row.epoch.n, 1, ((3, 5),), ((3, 4),), 2**50)
    update = replace(settled(row, floor=5, read_to=5), leases=(lease,))
    assert await world.cursors.flush([update])
    unit = Unit(world.tenant_id, place.topic.uid, 0)
    (before,) = await world.cursors.load([unit])
    assert before.leases == (lease,)
    await place.seek(Target(2))
    (after,) = await world.cursors.load([unit])
    assert after.leases == ()


async def test_a_name_is_taken_until_it_is_deleted_or_expires(world: World) -> None:
    place = await Place.open(world)
    await place.snapshot()
    with pytest.raises(Conflict):
        await place.snapshot()
    await place.snapshots.delete(world.tenant_id, "before")
    assert await place.pinned() == []
    await place.snapshot(expires_in_s=0.0)
    with pytest.raises(NotFound):
        await place.snapshots.get(world.tenant_id, "before")
    await place.snapshot()
    assert len((await place.snapshots.page(world.tenant_id)).items) == 1
    assert await place.pinned() == [0]


async def test_expired_snapshots_are_swept_a_few_at_a_time(world: World) -> None:
    place = await Place.open(world)
    for number in range(5):
        await place.snapshot(f"s{number}", expires_in_s=0.0)
    await place.snapshot("stays")
    assert await place.snapshots.sweep(3) == 3
    assert await place.snapshots.sweep(3) == 2
    assert await place.snapshots.sweep(3) == 0
    assert await place.pinned() == [0]


async def test_a_state_is_told_once(world: World) -> None:
    place = await Place.open(world)
    states = SubscriptionStateRepository(world.database)
    paused = await states.set(world.tenant_id, "billing", "paused", "deploy")
    assert paused > place.subscription.version
    again = await states.set(world.tenant_id, "billing", "paused", "deploy")
    assert again == paused
    found = await world.subscriptions.get(world.tenant_id, "billing")
    assert (found.state, found.state_reason) == ("paused", "deploy")


@pytest.mark.parametrize("what", ["seek", "snapshot"])
async def test_cursors_are_locked_in_key_order(world: World, what: str) -> None:
    """While a flush holds the first row, a seek or a snapshot waits for it and holds no other."""
    place = await Place.open(world, partitions=4)
    lock = "SELECT 1 FROM cursors WHERE subscription_uid = $1 AND partition = $2 FOR UPDATE"
    first, last = await world.database.dedicated("a"), await world.database.dedicated("b")
    try:
        async with asyncio.timeout(20), first.transaction():
            await first.execute(lock, uuid.UUID(bytes=place.subscription.uid), 0)
            waiting = asyncio.create_task(
                place.seek(Target(1)) if what == "seek" else place.snapshot()
            )
            while not await last.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
            await last.execute("SET lock_timeout = 1000")
            await last.execute(lock, uuid.UUID(bytes=place.subscription.uid), 3)
            assert not waiting.done()
        await waiting
    finally:
        await first.close()
        await last.close()


async def test_seeks_flushes_claims_and_snapshots_in_a_storm(world: World) -> None:
    """No deadlock, and every commit balances."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    place = await Place.open(world, partitions=4)
    other = await world.subscription(place.topic, "other")
    lanes = [(partition.number, 0) for partition in place.topic.partitions]

    async def flush(uid: bytes) -> None:
        rows = list(await world.cursors.of_subscription(world.tenant_id, uid))
        rng.shuffle(rows)
        updates = []
        for row in rows:
            floor = row.start + rng.randrange(20)
            updates.append(settled(row, floor=floor, read_to=floor + rng.randrange(9)))
        await world.cursors.flush(updates)

    async def seek(uid: bytes) -> None:
        chosen = rng.sample(lanes, rng.randrange(1, 5))
        await place.seeks.seek(
            world.tenant_id, uid, {lane: Target(rng.randrange(50)) for lane in chosen}
        )

    async def repeat(work: Any, times: int) -> None:
        for _ in range(times):
            await work()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for uid in (place.subscription.uid, other.uid):
            tasks.create_task(repeat(lambda uid=uid: flush(uid), 25))
            tasks.create_task(repeat(lambda uid=uid: flush(uid), 25))
            tasks.create_task(repeat(lambda uid=uid: seek(uid), 10))
        tasks.create_task(repeat(lambda: world.claim(place.owner, place.topic), 10))
        tasks.create_task(repeat(lambda: place.trim(rng.randrange(30)), 10))
        names = iter(range(100))
        tasks.create_task(repeat(lambda: place.snapshot(f"s{next(names)}"), 10))
    assert await place.balanced()
