"""The effects of a new era on the rows, and rows that are brought to the state of the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from metadata import eras
from metadata.database import Connection, Database
from metadata.delivery.deliveries import ACKS_KEPT_S, DeliveryLease
from metadata.delivery.due import Due, DueRepository, Progress, QueueKey
from metadata.eras import FENCE_BITS, Lift
from metadata.errors import Conflict, MetadataUnavailable
from metadata.ids import new_uid
from metadata.locks.locks import Claim, Held, Lock, LockRepository
from metadata.recovery import RecoveryRepository
from metadata.subscriptions.seeks import ERA_SHIFT, SeekRepository, Target
from metadata.types import ChangeKind, Partition, TopicSpec, TopicState
from tests.integration.metadata.world import World, keys_of, settled, with_epoch


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """Yield the connection of the process that repairs."""
    connection = await database.dedicated("test")
    yield connection
    await connection.close()


async def ask(database: Database, statement: str, *values: object) -> list[Any]:
    async def work(connection: Connection) -> list[Any]:
        return [tuple(row) for row in await connection.fetch(statement, *values)]

    return await database.statement(work, writes=True)


async def test_nothing_of_before_a_new_era_is_written_any_more(
    world: World, connection: Connection
) -> None:
    topic = await world.topic()
    await world.subscription(topic)
    incarnation = await world.forwarder()
    claims = await world.claim(incarnation, topic)
    (cursor,) = claims[0].cursors
    update = with_epoch(settled(cursor, floor=3, read_to=3), claims[0])
    assert await world.cursors.flush([update]) == {cursor.key: 0}

    await eras.enter(connection, 1, "restored", [])

    assert await world.cursors.flush([update]) == {}
    assert not await ask(world.database, "SELECT FROM forwarders")
    assert not await ask(world.database, "SELECT FROM assignments WHERE owner IS NOT NULL")
    other = await world.forwarder()
    again = await world.assignments.claim(other, keys_of(topic))
    assert {claim.epoch.era for claim in again.values()} == {1}


async def test_an_ack_of_before_a_new_era_can_be_repeated(
    world: World, connection: Connection
) -> None:
    """A client whose answer was lost was refused, and the message never came again."""
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    claims = await world.claim(await world.forwarder(), topic)
    (cursor,) = claims[0].cursors
    held = DeliveryLease(1, 0, 1, 1, ((3, 9),), ((3, 4), (6, 7)), 1_000_000)
    unacked = DeliveryLease(2, 0, 1, 1, ((9, 12),), (), 1_000_000)
    over = DeliveryLease(3, 0, 1, 1, ((0, 3),), ((0, 3),), 1_767_225_599_000_001)
    update = with_epoch(settled(cursor, floor=3, read_to=12), claims[0])
    await world.cursors.flush([replace(update, leases=(held, unacked, over))])
    before_s = time.time()

    await eras.enter(connection, 1, "restored", [])

    again = (await world.claim(await world.forwarder(), topic))[0]
    leases = {lease.number: lease for lease in again.cursors[0].leases}
    assert leases.keys() == {1, 3}, "a lease of before is over"
    assert leases[3] == over
    assert leases[1].offsets == leases[1].acked == held.acked
    assert leases[1].expires_us >= (before_s + ACKS_KEPT_S - 1) * 1_000_000


async def test_fences_are_above_all_of_before(world: World, connection: Connection) -> None:
    locks = LockRepository(world.database)
    before = await locks.take("old", new_uid())
    assert before is not None
    await eras.enter(connection, 3, "restored", [])
    for name in ("old", "new"):
        lock = await locks.take(name, new_uid())
        assert lock is not None, "the platform's own begin anew"
        assert lock.fence > 3 << FENCE_BITS


async def test_who_holds_a_lock_keeps_it(world: World, connection: Connection) -> None:
    """For a whole time to live: it may have renewed it just before Postgres was lost."""
    locks = LockRepository(world.database)
    owner = new_uid()
    claim = partial(Claim, world.tenant_id, owner=owner, ttl_s=30.0)
    for name in ("held", "released", "over"):
        assert isinstance(await locks.acquire(claim(name)), Lock)
    await locks.release_holding(world.tenant_id, "released", owner)
    # Its lease says when the backup was made: `forwarder()` has one of an hour.
    await world.leases.register(new_uid(), role="subscribe")
    end = "UPDATE locks SET lease_until = now() + $1 WHERE name = $2"
    await ask(world.database, end, timedelta(seconds=10), "held")
    await ask(world.database, end, timedelta(seconds=-2), "over")

    await eras.enter(connection, 3, "restored", [])

    found = await locks.acquire(claim("held", owner=new_uid()))
    assert isinstance(found, Held)
    assert found.free_in_s > 20
    renewed = await locks.renew_holding(world.tenant_id, "held", owner, None)
    assert renewed.fence == 3 << FENCE_BITS, "what was handed out since the backup is refused"
    for name in ("released", "over"):
        got = await locks.acquire(claim(name, owner=new_uid()))
        assert isinstance(got, Lock)
        assert got.fence > 3 << FENCE_BITS


async def test_caches_are_dropped_and_versions_never_repeat(
    world: World, connection: Connection
) -> None:
    topic = await world.topic()
    heard: list[ChangeKind] = []

    async def listen(changes: Any) -> None:
        heard.extend(change.kind for change in changes)

    world.feed.add_listener(listen)
    await world.feed.catch_up()
    await eras.enter(connection, 1, "restored", [])
    await world.feed.catch_up()
    assert heard[-1] is ChangeKind.RESET
    assert (await world.topic("after")).version > max(topic.version, 1 << FENCE_BITS)


async def test_what_was_read_before_is_older_than_what_is_there(
    world: World, connection: Connection
) -> None:
    topic = await world.topic()
    subscription = await world.subscription(topic)
    await eras.enter(connection, 1, "restored", [])
    now = await world.topics.get_by_uid(topic.tenant_id, topic.uid)
    assert now.version >= 1 << FENCE_BITS
    again = await world.subscriptions.get(world.tenant_id, subscription.name)
    assert again.version >= 1 << FENCE_BITS


async def test_a_seek_begins_a_generation_that_never_was(
    world: World, connection: Connection
) -> None:
    """A generation of the lost future may still have ack ids: they do not count."""
    topic = await world.topic()
    subscription = await world.subscription(topic)
    await eras.enter(connection, 2, "restored", [])
    seeks = SeekRepository(world.database)
    lost = [
        (await seeks.seek(world.tenant_id, subscription.uid, {(0, 0): Target(0)})).generation
        for _ in range(2)
    ]
    assert lost == [2 << ERA_SHIFT, (2 << ERA_SHIFT) + 1]


async def test_what_is_due_is_listed_anew(world: World, connection: Connection) -> None:
    queue = QueueKey(world.tenant_id, new_uid(), 0, 0, 0)
    lock = await LockRepository(world.database).take("scheduler", new_uid())
    assert lock is not None
    due = DueRepository(world.database)
    await due.write(lock, [Due(queue, 1, 5)], [], {queue: Progress(2, 0)})
    await eras.enter(connection, 1, "restored", [])
    assert await due.progress() == {}
    assert await due.due_until(10, 10) == []


async def test_what_is_trimmed_goes_up_and_never_down(world: World, connection: Connection) -> None:
    topic = await world.topic(partitions=1)
    lift = Lift(topic.tenant_id, topic.uid, 0, 0, 7)
    await eras.enter(connection, 1, "restored", [lift])
    await eras.enter(connection, 2, "restored", [lift._replace(first=5)])
    assert await ask(world.database, "SELECT trimmed_to FROM partitions") == [(7,)]


async def test_an_era_is_entered_once(world: World, connection: Connection) -> None:
    now = await eras.observe(connection)
    await eras.begin_first(connection, now)
    await eras.begin_first(connection, now)
    entered = await eras.enter(connection, 1, "restored", [])
    assert (entered.era, entered.era_system) == (1, now.system_identifier)
    assert entered.wal_bytes > now.wal_bytes
    with pytest.raises(Exception, match="eras_pkey"):
        await eras.enter(connection, 1, "again", [])
    assert await eras.observe(connection) >= entered


async def test_one_repairs_at_a_time(database: Database, connection: Connection) -> None:
    other = await database.dedicated("other")
    assert await eras.alone(connection)
    assert not await eras.alone(other)
    await connection.close()
    assert await eras.alone(other)
    await other.close()


async def test_who_dies_in_a_long_statement_of_a_repair_has_its_turn_no_longer(
    database: Database, connection: Connection
) -> None:
    """The server noticed once the statement had run, minutes later: nobody could repair before."""
    assert await eras.alone(connection)
    other = await database.dedicated("other")
    await other.execute("SELECT pg_advisory_lock(1, 1)")
    statement = "SELECT pg_advisory_lock(1, 1)"
    working = asyncio.create_task(connection.execute(statement, timeout=60))
    async with asyncio.timeout(20):
        while not await ask(database, "SELECT FROM pg_locks WHERE NOT granted"):
            assert not working.done()
        connection.terminate()
        while not await eras.alone(other):
            await asyncio.sleep(0.1)
    await asyncio.gather(working, return_exceptions=True)
    await other.close()


async def test_a_repair_that_lost_its_turn_writes_nothing_more(
    database: Database, connection: Connection
) -> None:
    """The repair's connection was cut while it was paused; its other connections must not go on."""
    assert await eras.alone(connection)
    helper = await database.dedicated("helper")
    await eras.help_repair(connection.get_server_pid(), helper)
    late = await database.dedicated("late")
    with pytest.raises(MetadataUnavailable):
        await eras.help_repair(helper.get_server_pid(), late)
    await late.close()
    next_one, late = await database.dedicated("next"), await database.dedicated("late")
    repairer = connection.get_server_pid()
    await connection.close()
    assert await eras.alone(next_one)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await helper.fetchval("SELECT 1")
    with pytest.raises(MetadataUnavailable):
        await eras.help_repair(repairer, late)
    await eras.enter(next_one, 1, "restored", [])
    await asyncio.gather(late.close(), next_one.close())


async def test_what_is_kept_below_the_floor_is_delivered_and_the_books_balance(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    subscription = await world.subscription(topic)
    incarnation = await world.forwarder()
    claim = (await world.claim(incarnation, topic))[0]
    (cursor,) = claim.cursors
    update = settled(cursor, floor=2, read_to=6, acked=((3, 4),))
    assert await world.cursors.flush([with_epoch(update, claim)]) == {cursor.key: 0}

    rows = RecoveryRepository(world.database)
    for made in (2, 0):  # the second time, there is nothing left to do
        assert await rows.step_over(topic, (0, 0), 10, [1, 3, 4, 8, 12]) == made

    (state,) = await world.cursors.load(keys_of(topic))
    assert (state.floor, state.read_to, state.acked) == (10, 10, ())
    assert [row.offset for row in state.stepped_over] == [4, 8]
    assert (state.counters.acked, state.counters.expired) == (3, 5)
    assert state.read_to - state.start == state.counters.total() + state.exceptions
    assert subscription.generation == state.generation


async def test_an_adopted_topic_has_the_same_uid_and_generations(world: World) -> None:
    rows, uid = RecoveryRepository(world.database), new_uid()
    parts = [Partition(0, 4, 0, 2, 30), Partition(1, 5)]
    spec = TopicSpec("orphan")
    topic = await rows.adopt(world.tenant_id, uid, spec, parts, {(0, 0): 33})
    assert (topic.uid, topic.state) == (uid, TopicState.ACTIVE)
    assert list(topic.partitions) == parts
    found = await ask(
        world.database, "SELECT partition, base, trimmed_to FROM partitions ORDER BY partition"
    )
    assert found == [(0, 30, 33), (1, 0, 0)]
    assert await rows.adopt(world.tenant_id, uid, spec, parts, {}) == topic
    assert len(await world.claim(await world.forwarder(), topic)) == 2
    with pytest.raises(Conflict):
        await rows.adopt(world.tenant_id, new_uid(), spec, parts, {})
