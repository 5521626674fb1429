"""Trims, pins and full flags, on a real Postgres."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from metadata.database import Connection
from metadata.ids import new_uid
from metadata.topics.pins import PinKind, PinRepository
from metadata.topics.retention import FullFlag, KeptSignature, LaneKey, RetentionRepository
from metadata.types import Retention, Subscription, Topic, TopicSpec
from tests.integration.metadata.world import World, settled


def lane(topic: Topic, partition: int = 0) -> LaneKey:
    return LaneKey(topic.tenant_id, topic.uid, partition, 0)


async def ack_to(world: World, topic: Topic, floor: int, read_to: int = 100) -> None:
    """Every cursor of partition 0 goes there."""
    forwarder = await world.forwarder()
    claim = (await world.claim(forwarder, topic))[0]
    updates = [settled(cursor, floor=floor, read_to=read_to) for cursor in claim.cursors]
    assert len(await world.cursors.flush(updates)) == len(updates)
    await world.leases.release(forwarder)


async def step_over(world: World, subscription: Subscription, *offsets: int) -> None:
    async def work(connection: Connection) -> None:
        for offset in offsets:
            await connection.execute(
                "INSERT INTO deliveries VALUES ($1, $2, 0, 0, $3, 1, NULL, 'hole')",
                subscription.tenant_id,
                subscription.uid,
                offset,
            )

    await world.database.statement(work, writes=True)


async def test_what_is_read_of_a_topic(world: World) -> None:
    retention = Retention(bytes=1000, on_limit="expire_oldest")
    spec = TopicSpec("limited", retention, dedup_window_s=30)
    made = await world.topics.create(world.tenant_id, spec, [4, 5])
    repository = RetentionRepository(world.database)
    assert await repository.topics() == ([], {})  # not active yet
    topic = await world.topics.activate(world.tenant_id, made.uid)
    assert topic.retention == retention
    topics, lanes = await repository.topics()
    assert [(each.name, each.retention, each.dedup_window_s) for each in topics] == [
        ("limited", retention, 30)
    ]
    assert {key: [each.group for each in lanes[key]] for key in lanes} == {
        lane(topic, 0): [4],
        lane(topic, 1): [5],
    }


async def test_a_trim_goes_up_to_the_lowest_pin_and_never_back(world: World) -> None:
    topic = await world.topic()
    await world.subscription(topic, "one")
    await world.subscription(topic, "two")
    repository = RetentionRepository(world.database)
    await ack_to(world, topic, 40)
    holds = await repository.holds()
    assert holds.pinned == {lane(topic, 0): 40, lane(topic, 1): 0}
    trimmed = await repository.trim(lane(topic), 60, past_pins=False)
    assert trimmed is not None
    assert trimmed.trimmed_to == 40
    trimmed = await repository.trim(lane(topic), 10, past_pins=False)
    assert trimmed is not None
    assert trimmed.trimmed_to == 40
    trimmed = await repository.trim(lane(topic), 60, past_pins=True)
    assert trimmed is not None
    assert trimmed.trimmed_to == 60
    assert await repository.trim(lane(topic, 9), 60, past_pins=False) is None


async def test_kept_are_the_open_deliveries_below_the_trim(world: World) -> None:
    topic = await world.topic()
    one = await world.subscription(topic, "one")
    two = await world.subscription(topic, "two")
    repository = RetentionRepository(world.database)
    await ack_to(world, topic, 50)
    await step_over(world, one, 7, 9)
    await step_over(world, two, 9, 49)
    holds = await repository.holds()
    assert holds.kept == {lane(topic): KeptSignature(4, 7 + 9 + 9 + 49)}
    trimmed = await repository.trim(lane(topic), 20, past_pins=False)
    assert trimmed is not None
    assert trimmed.kept == (7, 9)
    trimmed = await repository.trim(lane(topic), 50, past_pins=False)
    assert trimmed is not None
    assert trimmed.kept == (7, 9, 49)


async def test_a_new_cursor_begins_where_the_trim_ended(world: World) -> None:
    topic = await world.topic()
    repository = RetentionRepository(world.database)
    trimmed = await repository.trim(lane(topic), 25, past_pins=False)
    assert trimmed is not None
    subscription = await world.subscription(topic, floor=3)
    rows = await world.cursors.of_subscription(world.tenant_id, subscription.uid)
    assert [row.floor for row in rows] == [25, 3]


async def test_a_cursor_made_while_a_trim_is_under_way_waits_for_it(world: World) -> None:
    topic = await world.topic(partitions=1)
    locked, commit = asyncio.Event(), asyncio.Event()

    async def slow_trim(connection: Connection) -> None:
        await connection.execute(
            "SELECT FROM partitions WHERE topic_uid = $1 FOR UPDATE", topic.uid
        )
        locked.set()
        await commit.wait()
        await connection.execute(
            "UPDATE partitions SET trimmed_to = 30 WHERE topic_uid = $1", topic.uid
        )

    trimming = asyncio.create_task(world.database.transaction(slow_trim))
    await locked.wait()
    making = asyncio.create_task(world.subscription(topic, floor=5))
    done, _ = await asyncio.wait({making}, timeout=0.2)
    assert not done
    commit.set()
    await trimming
    subscription = await making
    (row,) = await world.cursors.of_subscription(world.tenant_id, subscription.uid)
    assert row.floor == 30


async def test_a_trim_waits_for_a_pin_that_is_being_made_and_stops_at_it(world: World) -> None:
    """The trim reads the pins only after it has locked the rows of the partition."""
    topic = await world.topic(partitions=1)
    repository = RetentionRepository(world.database)
    locked, commit = asyncio.Event(), asyncio.Event()

    async def slow_pin(connection: Connection) -> None:
        await connection.execute("SELECT FROM partitions WHERE topic_uid = $1 FOR SHARE", topic.uid)
        locked.set()
        await commit.wait()
        await connection.execute(
            "INSERT INTO pins (tenant_id, topic_uid, partition, lane, holder, kind, pinned_offset)"
            " VALUES ($1, $2, 0, 0, $3, 'export', 15)",
            *(world.tenant_id, topic.uid, new_uid()),
        )

    pinning = asyncio.create_task(world.database.transaction(slow_pin))
    await locked.wait()
    trimming = asyncio.create_task(repository.trim(lane(topic), 60, past_pins=False))
    done, _ = await asyncio.wait({trimming}, timeout=0.2)
    assert not done
    commit.set()
    await pinning
    trimmed = await trimming
    assert trimmed is not None
    assert trimmed.trimmed_to == 15


async def test_snapshots_and_export_holds_pin_too_until_they_expire(world: World) -> None:
    topic = await world.topic()
    repository, pins = RetentionRepository(world.database), PinRepository(world.database)
    holder, other = new_uid(), new_uid()
    at = (world.tenant_id, topic.uid)
    pinned = await pins.hold(*at, holder, PinKind.SNAPSHOT, {(0, 0): 15, (1, 0): 2})
    assert pinned == {(0, 0): 15, (1, 0): 2}
    trimmed = await repository.trim(lane(topic), 60, past_pins=False)
    assert trimmed is not None
    assert trimmed.trimmed_to == 15
    # One that comes later holds no more than is left.
    assert await pins.hold(*at, other, PinKind.EXPORT, {(0, 0): 3}) == {(0, 0): 15}
    await pins.drop(*at, holder)
    over = datetime.now(UTC) - timedelta(seconds=1)
    await pins.hold(*at, other, PinKind.EXPORT, {(0, 0): 16}, expires_at=over)
    assert (await repository.holds()).pinned == {}
    trimmed = await repository.trim(lane(topic), 60, past_pins=False)
    assert trimmed is not None
    assert trimmed.trimmed_to == 60


async def test_every_process_learns_that_a_topic_is_full_and_its_etag_stays(world: World) -> None:
    topic = await world.topic()
    await world.feed.start()
    assert (await world.catalog.topic(world.tenant_id, topic.name)).full is None
    repository = RetentionRepository(world.database)
    flag = FullFlag(world.tenant_id, topic.uid, "topic-full", "It stores all that it may.")
    await repository.set_full([flag, FullFlag(world.tenant_id, new_uid(), "topic-full", "gone")])
    await world.feed.catch_up()
    cached = world.catalog.cached_topic(world.tenant_id, topic.name)
    assert cached is not None
    assert (cached.full, cached.full_detail) == ("topic-full", "It stores all that it may.")
    assert cached.version == topic.version
    await repository.set_full([flag._replace(reason=None, detail="")])
    await world.feed.catch_up()
    cached = world.catalog.cached_topic(world.tenant_id, topic.name)
    assert cached is not None
    assert (cached.full, cached.full_detail) == (None, "")


async def test_usage_of_a_topic_that_is_gone_is_passed_over(world: World) -> None:
    topic = await world.topic()
    repository = RetentionRepository(world.database)
    await repository.note_usage([(*lane(topic)[:2], 10, 1), (world.tenant_id, new_uid(), 5, 0)])
    await repository.note_usage([(*lane(topic)[:2], 20, 2)])

    async def rows(connection: Connection) -> list[tuple[int, int]]:
        found = await connection.fetch("SELECT stored_bytes, staged FROM topic_usage")
        return [tuple(row) for row in found]

    assert await world.database.statement(rows, writes=False) == [(20, 2)]
