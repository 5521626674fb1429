"""Moves and growths in Postgres: one intent at a time, and one transaction at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from metadata.database import Connection, Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.topics.placements import PlacementRepository
from metadata.types import (
    Change,
    Partition,
    Placement,
    SealedPartition,
    Topic,
)
from tests.integration.metadata.world import World, keys_of


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    world = await World.open(database)
    yield world
    await world.feed.close()


@pytest.fixture
def placements(database: Database) -> PlacementRepository:
    return PlacementRepository(database)


def opened(found: Topic | Placement) -> Placement:
    assert isinstance(found, Placement)
    return found


async def test_a_move_seals_one_generation_and_opens_the_next(
    world: World, placements: PlacementRepository
) -> None:
    topic = await world.topic(partitions=3)
    intent = opened(await placements.start_move(world.tenant_id, "orders", 1, 7))
    assert intent.kind == "move"
    assert intent.sealing == (Partition(1, 1),)
    assert intent.opening == (Partition(1, 7, generation=1),)
    assert (await world.topics.get(world.tenant_id, "orders")).version == topic.version
    moved = await placements.finish(intent, {(1, 0): 42})
    assert moved.partitions == (
        Partition(0, 0),
        Partition(1, 7, generation=1, base=42),
        Partition(2, 2),
    )
    (sealed,) = moved.sealed
    assert sealed == SealedPartition(1, 1, 0, 0, 0, 42, sealed.sealed_time_us, 3)
    age_us = moved.updated_at.timestamp() * 1e6 - sealed.sealed_time_us
    assert abs(age_us) < 5e6
    assert moved.version > topic.version
    assert await placements.get(world.tenant_id, topic.uid) is None
    assert await placements.finish(intent, {(1, 0): 99}) == moved, (
        "whoever comes late changes nothing"
    )


async def test_a_growth_gives_new_partitions_an_owner_and_cursors(
    world: World, placements: PlacementRepository
) -> None:
    topic = await world.topic(partitions=2)
    subscription = await world.subscription(topic)
    forwarder = await world.forwarder()
    await world.claim(forwarder, topic)
    intent = opened(await placements.start_grow(world.tenant_id, "orders", [9, 9, 5, 6]))
    assert intent.sealing == topic.partitions
    assert [(p.number, p.group, p.generation) for p in intent.opening] == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 5, 0),
        (3, 6, 0),
    ]
    grown = await placements.finish(intent, {(0, 0): 10, (1, 0): 20})
    assert [(p.number, p.group, p.generation, p.base) for p in grown.partitions] == [
        (0, 0, 1, 10),
        (1, 1, 1, 20),
        (2, 5, 0, 0),
        (3, 6, 0, 0),
    ]
    assert [(s.number, s.sealed_at, s.of_partitions) for s in grown.sealed] == [
        (0, 10, 2),
        (1, 20, 2),
    ]
    cursors = await world.cursors.of_subscription(world.tenant_id, subscription.uid)
    assert [(c.key.partition, c.start, c.floor, c.read_to) for c in cursors] == [
        (number, 0, 0, 0) for number in range(4)
    ]
    claimable = await world.assignments.claimable(forwarder)
    assert [key.partition for key in claimable] == [2, 3]
    claims = await world.claim(forwarder, grown)
    assert {len(claim.cursors) for claim in claims.values()} == {1}
    assert await world.cursors.unbalanced() == []


async def test_generations_follow_each_other_and_are_forgotten_one_by_one(
    world: World, placements: PlacementRepository
) -> None:
    topic = await world.topic(partitions=1)
    for end, group in ((10, 3), (20, 4)):
        intent = opened(await placements.start_move(world.tenant_id, "orders", 0, group))
        topic = await placements.finish(intent, {(0, 0): end})
    assert topic.partitions == (Partition(0, 4, generation=2, base=20),)
    assert [(s.generation, s.base, s.sealed_at) for s in topic.sealed] == [(0, 0, 10), (1, 10, 20)]
    for generation in (0, 2):
        await placements.forget_generation(world.tenant_id, topic.uid, 0, 0, generation)
    left = await world.topics.get(world.tenant_id, "orders")
    assert left.partitions == topic.partitions, "an open generation is never forgotten"
    assert [s.generation for s in left.sealed] == [1]
    assert left.version > topic.version


async def test_one_placement_at_a_time_and_a_repeat_goes_on_with_it(
    world: World, placements: PlacementRepository
) -> None:
    await world.topic(partitions=2)
    first = opened(await placements.start_move(world.tenant_id, "orders", 0, 7))
    assert await placements.start_move(world.tenant_id, "orders", 0, 7) == first
    for wanted in (
        placements.start_move(world.tenant_id, "orders", 0, 6),
        placements.start_move(world.tenant_id, "orders", 1, 7),
        placements.start_grow(world.tenant_id, "orders", [0, 1, 2]),
    ):
        with pytest.raises(Conflict):
            await wanted
    assert await placements.unfinished() == [first]
    await placements.finish(first, {(0, 0): 0})
    assert await placements.unfinished() == []
    grow = opened(await placements.start_grow(world.tenant_id, "orders", [0, 1, 2]))
    again = opened(await placements.start_grow(world.tenant_id, "orders", [5, 5, 5]))
    assert again == grow, "the groups of the first intent stay"


async def test_of_many_who_start_and_finish_at_once_one_does(
    world: World, placements: PlacementRepository
) -> None:
    await world.topic(partitions=1)

    async def move(group: int) -> bool:
        try:
            found = await placements.start_move(world.tenant_id, "orders", 0, group)
        except Conflict:
            return False
        return isinstance(found, Placement)

    assert sum(await asyncio.gather(*(move(group) for group in range(1, 6)))) == 1
    (intent,) = await placements.unfinished()
    topics = await asyncio.gather(*(placements.finish(intent, {(0, 0): 5}) for _ in range(4)))
    assert len({topic.version for topic in topics}) == 1
    assert len(topics[0].sealed) == 1


async def test_what_needs_nothing_is_no_intent(
    world: World, placements: PlacementRepository
) -> None:
    topic = await world.topic(partitions=2)
    assert await placements.start_move(world.tenant_id, "orders", 1, 1) == topic
    assert await placements.start_grow(world.tenant_id, "orders", [4, 4]) == topic
    with pytest.raises(Conflict):
        await placements.start_grow(world.tenant_id, "orders", [0])
    for tenant_id, name, partition in (
        (world.tenant_id, "orders", 2),
        (world.tenant_id, "other", 0),
        (new_uid(), "orders", 0),
    ):
        with pytest.raises(NotFound):
            await placements.start_move(tenant_id, name, partition, 3)
    assert await placements.unfinished() == []


async def test_a_topic_that_goes_takes_its_placement_with_it(
    world: World, placements: PlacementRepository
) -> None:
    topic = await world.topic(partitions=1)
    intent = opened(await placements.start_move(world.tenant_id, "orders", 0, 3))
    await world.topics.mark_deleting(world.tenant_id, "orders")
    assert await placements.unfinished() == []
    with pytest.raises(NotFound):
        await placements.finish(intent, {(0, 0): 3})
    left = await placements.get(world.tenant_id, topic.uid)
    assert left is not None
    assert left.opening == intent.opening, "whoever deletes the queues must know of it"
    await world.topics.remove(world.tenant_id, topic.uid)
    assert await placements.get(world.tenant_id, topic.uid) is None


async def test_a_subscription_made_while_a_topic_grows_reads_every_partition(
    world: World, placements: PlacementRepository
) -> None:
    before = await world.topic(partitions=1)
    intent = opened(await placements.start_grow(world.tenant_id, "orders", [0, 1]))
    await placements.finish(intent, {(0, 0): 8})
    made = await world.subscription(before, floor=5)
    cursors = await world.cursors.of_subscription(world.tenant_id, made.uid)
    assert [(c.key.partition, c.start) for c in cursors] == [(0, 5), (1, 0)]


async def test_the_feed_tells_of_a_finished_placement(
    world: World, placements: PlacementRepository
) -> None:
    topic = await world.topic(partitions=1)
    seen: list[Change] = []

    async def listen(changes: object) -> None:
        seen.extend(changes)  # type: ignore[arg-type]

    await world.feed.catch_up()
    world.feed.add_listener(listen)
    assert await world.catalog.topic(world.tenant_id, "orders") == topic
    intent = opened(await placements.start_move(world.tenant_id, "orders", 0, 3))
    moved = await placements.finish(intent, {(0, 0): 1})
    await world.feed.catch_up()
    assert [change.uid for change in seen] == [topic.uid]
    assert world.catalog.cached_topic(world.tenant_id, "orders") == moved
    assert keys_of(moved) == keys_of(topic)


@pytest.mark.parametrize("read", ["all", "one"])
async def test_a_placement_that_ends_while_it_is_read_is_about_the_partitions_before(
    read: str, world: World, placements: PlacementRepository, database: Database
) -> None:
    """A mover that took the old partition for one of its new ones would seal it, and open
    an unread one.
    """
    topic = await world.topic(partitions=1)
    intent = opened(await placements.start_grow(world.tenant_id, "orders", [0, 5]))
    ends = asyncio.Event()

    async def end(connection: Connection) -> None:
        await connection.execute("LOCK TABLE partitions IN ACCESS EXCLUSIVE MODE")
        ends.set()
        while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0)
        key = world.tenant_id, topic.uid
        await connection.execute(_ENDED, *key)
        await connection.execute(_GROWN, *key)

    ending = asyncio.create_task(database.transaction(end))
    await ends.wait()
    if read == "all":
        (found,) = await placements.unfinished()
    else:
        one = await placements.get(world.tenant_id, topic.uid)
        assert one is not None
        found = one
    await ending
    assert found == intent
    assert await placements.unfinished() == []
    assert (await world.topics.get(world.tenant_id, "orders")).partition_count == 2


_ENDED = "DELETE FROM placements WHERE (tenant_id, topic_uid) = ($1, $2)"
_GROWN = """
INSERT INTO partitions
    (tenant_id, topic_uid, partition, lane, generation, group_number, base, trimmed_to)
SELECT tenant_id, topic_uid, 1, lane, 0, 5, 0, 0 FROM partitions
WHERE (tenant_id, topic_uid) = ($1, $2)
"""
