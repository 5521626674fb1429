"""Open deliveries, leases, dead letters and history travel with their cursor, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metadata.database import Connection
from metadata.delivery.deliveries import (
    DeadLetter,
    DeliveryLease,
    OpenDelivery,
    Reason,
    SettledRange,
)
from metadata.ids import new_uid
from metadata.types import Counters, CursorState, CursorUpdate, Unit
from tests.integration.metadata.world import World

FAILED = OpenDelivery(
    3, 2, Reason.FAILED, 1_767_225_599_123_457, -5, "no", 1, 1_700_000_000_000_001
)
HOLE = OpenDelivery(5, 0, Reason.HOLE)
LEASE = DeliveryLease(7, 0, 1, 2, ((8, 10), (12, 13)), ((8, 9),), 1_767_225_599_000_001)


async def cursor_of(world: World) -> CursorState:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    return cursor


def stepped(cursor: CursorState, *rows: OpenDelivery, floor: int = 6) -> CursorUpdate:
    """Return an update with every offset below `floor` acked, except those of `rows`."""
    return CursorUpdate(
        key=cursor.key,
        epoch=cursor.epoch,
        generation=cursor.generation,
        floor=floor,
        read_to=20,
        acked=(),
        counters=Counters(acked=floor - len(rows)),
        exceptions=len(rows),
        stepped_over=rows,
    )


async def test_rows_come_back_as_they_were_written(world: World) -> None:
    cursor = await cursor_of(world)
    update = replace(stepped(cursor, FAILED, HOLE), leases=(LEASE,))
    assert await world.cursors.flush([update]) == {cursor.key: 0}
    (loaded,) = await world.cursors.load([_partition(cursor)])
    assert loaded.exceptions == 2
    assert loaded.stepped_over == (FAILED, HOLE)
    assert loaded.leases == (LEASE,)
    again = replace(FAILED, attempts=3)
    second = replace(
        stepped(cursor, again),
        counters=Counters(acked=5),
        closed=(5,),
        ended_leases=(7,),
    )
    assert await world.cursors.flush([second]) == {cursor.key: 0}
    (loaded,) = await world.cursors.load([_partition(cursor)])
    assert (loaded.stepped_over, loaded.leases) == ((again,), ())
    assert await world.cursors.unbalanced() == []


async def test_a_lease_row_is_written_over(world: World) -> None:
    cursor = await cursor_of(world)
    await world.cursors.flush([replace(stepped(cursor), leases=(LEASE,))])
    later = DeliveryLease(7, 0, 2, 3, ((8, 9), (12, 13)), ((8, 9), (12, 13)), LEASE.expires_us + 1)
    assert await world.cursors.flush([replace(stepped(cursor), leases=(later,))])
    (loaded,) = await world.cursors.load([_partition(cursor)])
    assert loaded.leases == (later,)


async def test_a_claim_brings_them(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    owner = await world.forwarder()
    (cursor,) = (await world.claim(owner, topic))[0].cursors
    await world.cursors.flush([replace(stepped(cursor, HOLE), leases=(LEASE,))])
    (claimed,) = (await world.claim(owner, topic))[0].cursors
    assert (claimed.stepped_over, claimed.leases) == ((HOLE,), (LEASE,))


@pytest.mark.parametrize("change", ["epoch", "generation"])
async def test_a_lost_cursor_writes_none_of_them(world: World, change: str) -> None:
    cursor = await cursor_of(world)
    await world.cursors.flush([stepped(cursor, HOLE)])
    update = replace(
        stepped(cursor, FAILED),
        closed=(5,),
        leases=(LEASE,),
        dead_letters=(_letter(4),),
        history=(SettledRange(0, 3, "acked"),),
    )
    if change == "epoch":
        update = replace(update, epoch=cursor.epoch._replace(n=99))
    else:
        update = replace(update, generation=99)
    assert await world.cursors.flush([update]) == {}
    (loaded,) = await world.cursors.load([_partition(cursor)])
    assert (loaded.stepped_over, loaded.leases) == ((HOLE,), ())
    assert await _count(world, "SELECT count(*) FROM dead_letters") == 0
    assert await _count(world, "SELECT count(*) FROM ack_history") == 0


async def test_a_dead_letter_is_written_once(world: World) -> None:
    cursor = await cursor_of(world)
    letter = _letter(4)
    update = replace(
        stepped(cursor), dead_letters=(letter,), history=(SettledRange(0, 6, "acked"),)
    )
    await world.cursors.flush([update])
    await world.cursors.flush([replace(update, dead_letters=(replace(letter, uid=new_uid()),))])
    assert await _count(world, "SELECT count(*) FROM dead_letters") == 1
    assert await _count(world, "SELECT count(*) FROM ack_history WHERE high = 6") == 2


@pytest.mark.parametrize(
    ("wrong", "difference"),
    [
        ({"counters": Counters(acked=5)}, 1),
        ({"counters": Counters(acked=7)}, -1),
        ({"floor": 9}, 1),
        ({"acked": ((10, 12),)}, 2),
        ({"exceptions": 3}, -1),
        ({"stepped_over": (HOLE,)}, -1),
        ({"closed": (5,), "stepped_over": (FAILED,)}, -1),
    ],
    ids=["counter", "counted twice", "floor", "range", "exceptions", "no row", "row gone"],
)
async def test_books_that_do_not_balance_are_told_by_the_flush_and_by_a_recount(
    world: World, wrong: dict[str, Any], difference: int
) -> None:
    cursor = await cursor_of(world)
    good = stepped(cursor, HOLE, floor=7)
    assert await world.cursors.flush([good]) == {cursor.key: 0}
    bad = stepped(cursor, FAILED, HOLE, floor=8)
    assert await world.cursors.flush([replace(bad, **wrong)]) == {cursor.key: difference}
    (books,) = await world.cursors.balances_of([cursor.key])
    assert books.difference != 0
    assert [row.key for row in await world.cursors.unbalanced()] == [cursor.key]


def _partition(cursor: CursorState) -> Unit:
    return Unit(cursor.key.tenant_id, cursor.topic_uid, cursor.key.partition)


def _letter(offset: int) -> DeadLetter:
    return DeadLetter(
        uid=new_uid(),
        offset=offset,
        message_id="m",
        key=None,
        attributes={"a": "é"},
        content_type=None,
        size_bytes=3,
        reason="exhausted",
        detail=None,
        attempts=3,
        first_us=1,
        last_us=2,
        publish_us=3,
        letter_topic_uid=new_uid(),
        letter_partition=0,
        letter_lane=0,
        letter_offset=9,
    )


async def _count(world: World, statement: str) -> int:
    async def work(connection: Connection) -> int:
        return int(await connection.fetchval(statement))

    return await world.database.statement(work, writes=False)
