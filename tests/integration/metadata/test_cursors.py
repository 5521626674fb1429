from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import asyncpg
import pytest

from metadata.delivery.beside import format_ranges, parse_ranges
from metadata.errors import StatementRefused
from metadata.types import Counters, CursorKey, Range
from tests.integration.metadata.world import World, settled


async def test_a_flush_writes_all_rows_and_names_them(world: World) -> None:
    topic = await world.topic(partitions=3)
    await world.subscription(topic)
    claims = await world.claim(await world.forwarder(), topic)
    updates = [
        settled(claims[number].cursors[0], floor=number, read_to=100, acked=((10, 20), (30, 31)))
        for number in (2, 0, 1)
    ]
    assert await world.cursors.flush(updates) == {update.key: 0 for update in updates}
    stored = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert [cursor.floor for cursor in stored] == [0, 1, 2]
    for cursor in stored:
        assert cursor.acked == ((10, 20), (30, 31))
        assert cursor.counters.total() + cursor.pending() == cursor.read_to - cursor.start
    assert await world.cursors.unbalanced() == []


async def test_nothing_to_flush_is_no_statement(world: World) -> None:
    assert await world.cursors.flush([]) == {}


async def test_a_cursor_twice_in_a_flush_is_refused(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    update = settled(cursor, floor=1, read_to=1)
    with pytest.raises(ValueError, match="once"):
        await world.cursors.flush([update, update])


async def test_a_lost_epoch_leaves_its_row_alone_and_the_others_go_through(world: World) -> None:
    topic = await world.topic(partitions=2)
    await world.subscription(topic)
    old, new = await world.forwarder(), await world.forwarder()
    before = await world.claim(old, topic)
    await world.assignments.release(old, [before[0].key])
    after = await world.claim(new, topic)
    assert set(after) == {0}
    stale = settled(before[0].cursors[0], floor=9, read_to=9)
    good = settled(before[1].cursors[0], floor=7, read_to=8)
    assert await world.cursors.flush([stale, good]) == {good.key: 0}
    first, second = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert (first.floor, second.floor) == (0, 7)


@pytest.mark.parametrize("change", ["era", "n", "generation"])
async def test_every_part_of_the_fence_counts(world: World, change: str) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    update = settled(cursor, floor=5, read_to=5)
    if change == "generation":
        wrong = replace(update, generation=update.generation + 1)
    else:
        wrong = replace(update, epoch=update.epoch._replace(**{change: 99}))
    assert await world.cursors.flush([wrong]) == {}
    assert await world.cursors.flush([update]) == {update.key: 0}


async def test_a_deleted_subscription_is_not_brought_back(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    await world.subscriptions.delete(world.tenant_id, "billing")
    assert await world.cursors.flush([settled(cursor, floor=5, read_to=5)]) == {}


async def test_a_flush_that_waits_for_a_claim_finds_itself_fenced(
    world: World, database_url: str
) -> None:
    """The epoch is looked at again after the lock is there, not only in the snapshot."""
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    rival = await asyncpg.connect(database_url)
    try:
        transaction = rival.transaction()
        await transaction.start()
        await rival.execute("UPDATE cursors SET epoch_n = epoch_n + 1")
        flush = asyncio.create_task(world.cursors.flush([settled(cursor, floor=5, read_to=5)]))
        await asyncio.sleep(0.2)
        assert not flush.done()
        await transaction.commit()
        assert await flush == {}
    finally:
        await rival.close()


async def test_a_claim_that_waits_for_a_flush_returns_what_it_wrote(
    world: World, database_url: str
) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    owner = await world.forwarder()
    await world.claim(owner, topic)
    slow = await asyncpg.connect(database_url)
    try:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute("UPDATE cursors SET floor = 3, read_to = 3, acked_total = 3")
        claim = asyncio.create_task(world.claim(owner, topic))
        await asyncio.sleep(0.2)
        assert not claim.done()
        await transaction.commit()
        (cursor,) = (await claim)[0].cursors
    finally:
        await slow.close()
    assert (cursor.floor, cursor.counters.acked) == (3, 3)


async def test_flushes_in_opposite_order_do_not_deadlock(world: World) -> None:
    topic = await world.topic(partitions=20)
    await world.subscription(topic)
    claims = await world.claim(await world.forwarder(), topic)
    cursors = [claim.cursors[0] for claim in claims.values()]

    async def flush(seed: int) -> None:
        order = random.Random(seed)
        for floor in range(10):
            updates = [settled(cursor, floor=floor, read_to=floor) for cursor in cursors]
            order.shuffle(updates)
            assert len(await world.cursors.flush(updates)) == len(cursors)

    await asyncio.gather(*(flush(seed) for seed in range(4)))


async def test_the_books_of_a_cursor_that_do_not_balance_are_shown(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    good = settled(cursor, floor=10, read_to=30, acked=((12, 15),))
    await world.cursors.flush([good])
    assert await world.cursors.unbalanced() == []
    await world.cursors.flush([replace(good, counters=Counters(acked=12))])
    assert [bad.key for bad in await world.cursors.unbalanced()] == [cursor.key]
    mixed = Counters(acked=5, filtered=4, skipped=2, expired=1, dead_lettered=1)
    await world.cursors.flush([replace(good, counters=mixed)])
    assert await world.cursors.unbalanced() == []


async def test_of_whole_partitions_only_what_does_not_balance_is_read(world: World) -> None:
    topic, other = await world.topic(partitions=2), await world.topic("other", partitions=1)
    for name, each in (("one", topic), ("two", topic), ("three", other)):
        await world.subscription(each, name)
    forwarder = await world.forwarder()
    claims = await world.claim(forwarder, topic)
    units = [claim.key for claim in claims.values()]
    assert await world.cursors.unbalanced_in(units) == ()
    short, rows, good = claims[0].cursors[0], claims[1].cursors[0], claims[1].cursors[1]
    balanced = settled(good, floor=10, read_to=30, acked=((12, 15),))
    lacking = settled(short, floor=10, read_to=30, acked=((12, 15),))
    missing = settled(rows, floor=10, read_to=30)
    await world.cursors.flush(
        [
            balanced,
            replace(lacking, counters=Counters(acked=12)),
            replace(missing, counters=Counters(acked=9), exceptions=1),
        ]
    )
    stranger = (await world.claim(forwarder, other))[0].cursors[0]
    elsewhere = settled(stranger, floor=5, read_to=5)
    await world.cursors.flush([replace(elsewhere, counters=Counters(acked=4))])
    found = await world.cursors.unbalanced_in(units)
    assert {books.cursor.key: books.difference for books in found} == {short.key: 1, rows.key: 1}
    everywhere = {cursor.key for cursor in await world.cursors.unbalanced()}
    assert everywhere == {short.key, rows.key, stranger.key}
    split = [unit._replace(subscription_uid=short.key.subscription_uid) for unit in units[:1]]
    (books,) = await world.cursors.unbalanced_in(split)
    assert books.cursor.key == short.key


@pytest.mark.parametrize("bad", [{"floor": -1}, {"read_to": 3}, {"acked": ((3, 8),)}])
async def test_postgres_itself_refuses_a_cursor_out_of_order(
    world: World, bad: dict[str, object]
) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    update = settled(cursor, floor=5, read_to=10)
    with pytest.raises(StatementRefused, match="CheckViolation"):
        await world.cursors.flush([replace(update, **bad)])  # type: ignore[arg-type]


async def test_a_fragmented_cursor_comes_back_whole(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    ranges = tuple((2 * number + 1, 2 * number + 2) for number in range(10_000))
    await world.cursors.flush([settled(cursor, floor=0, read_to=20_001, acked=ranges)])
    (stored,) = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert stored.acked == ranges
    assert await world.cursors.unbalanced() == []


@pytest.mark.parametrize("ranges", [(), ((0, 1),), ((0, 1), (5, 1 << 62))])
def test_ranges_survive_their_text_form(ranges: tuple[Range, ...]) -> None:
    assert parse_ranges(format_ranges(ranges)) == ranges


async def test_load_returns_the_cursors_of_the_partitions_asked_for(world: World) -> None:
    topic = await world.topic(partitions=3)
    one, two = await world.subscription(topic, "one"), await world.subscription(topic, "two")
    claims = await world.claim(await world.forwarder(), topic)
    loaded = await world.cursors.load([claims[2].key, claims[0].key])
    expected = {
        CursorKey(world.tenant_id, subscription.uid, number)
        for subscription in (one, two)
        for number in (0, 2)
    }
    assert {cursor.key for cursor in loaded} == expected
    assert {cursor.epoch for cursor in loaded} == {claims[2].epoch, claims[0].epoch}
