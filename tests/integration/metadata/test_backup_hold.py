"""A backup holds history for its length, on a real Postgres."""

from __future__ import annotations

import asyncio

import pytest

from metadata.database import Connection, Database
from metadata.errors import LeaseLost
from metadata.topics.backup_hold import NAMES, holding
from metadata.topics.retention import LaneKey, RetentionRepository
from tests.integration.metadata.world import World


@pytest.fixture
async def world(database: Database) -> World:
    return await World.open(database)


async def expire_holds(world: World) -> None:
    async def work(connection: Connection) -> None:
        await connection.execute("UPDATE locks SET lease_until = now() - interval '1 ms'")

    await world.database.statement(work, writes=True)


async def trimmed(world: World, key: LaneKey, *, past_pins: bool = False) -> int | None:
    done = await RetentionRepository(world.database).trim(key, 10, past_pins=past_pins)
    return None if done is None else done.trimmed_to


async def test_nothing_is_trimmed_while_a_backup_is_taken(world: World) -> None:
    topic = await world.topic("orders")
    key = LaneKey(topic.tenant_id, topic.uid, 0, 0)
    retention = RetentionRepository(world.database)
    async with holding(world.database) as check:
        assert (await retention.holds()).by_backup
        assert await trimmed(world, key) is None
        _, lanes = await retention.topics()
        assert lanes[key][0].trimmed_to == 0
        await check()
    assert not (await retention.holds()).by_backup
    assert await trimmed(world, key) == 10


async def test_what_a_limit_wants_gone_past_all_pins_goes(world: World) -> None:
    topic = await world.topic("orders")
    async with holding(world.database):
        assert await trimmed(world, LaneKey(topic.tenant_id, topic.uid, 0, 0), past_pins=True) == 10


async def test_a_backup_whose_hold_ended_is_none_and_holds_nothing(world: World) -> None:
    topic = await world.topic("orders")
    async with holding(world.database) as check:
        await expire_holds(world)
        assert await trimmed(world, LaneKey(topic.tenant_id, topic.uid, 0, 0)) == 10
        with pytest.raises(LeaseLost):
            await check()


async def test_several_backups_may_be_under_way_and_the_last_lets_go(world: World) -> None:
    retention = RetentionRepository(world.database)
    async with holding(world.database):
        async with holding(world.database) as check:
            await check()
        assert (await retention.holds()).by_backup
    assert not (await retention.holds()).by_backup
    assert len(NAMES) > 1


async def test_a_trim_that_is_under_way_when_a_backup_begins_has_read_what_was_before_it(
    world: World,
) -> None:
    """The trim reads the hold last. If the hold began meanwhile, the trim deletes nothing."""
    topic = await world.topic("orders")
    key = LaneKey(topic.tenant_id, topic.uid, 0, 0)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def keep_out(connection: Connection) -> None:
        await connection.execute("SELECT FROM partitions FOR SHARE")
        inside.set()
        await leave.wait()

    blocking = asyncio.create_task(world.database.transaction(keep_out))
    await inside.wait()
    trimming = asyncio.create_task(trimmed(world, key))
    await asyncio.sleep(0.2)
    async with holding(world.database):
        leave.set()
        await blocking
        assert await trimming is None
