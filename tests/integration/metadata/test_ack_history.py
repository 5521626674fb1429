"""The fate of a message in each subscription, and how long it is known."""

from __future__ import annotations

from dataclasses import replace

from metadata.database import Connection
from metadata.delivery.ack_history import AckHistoryRepository, MessageState
from metadata.delivery.deliveries import DeadLetter, OpenDelivery, Reason, SettledRange
from metadata.ids import new_uid
from metadata.types import Counters, CursorState, CursorUpdate, Topic
from tests.integration.metadata.world import World

RETENTION_S = 7 * 86_400
FAILED = OpenDelivery(3, 2, Reason.FAILED, 1_767_225_599_123_457, None, "no", 1, 2)
HISTORY = (
    SettledRange(0, 3, "acked"),
    SettledRange(4, 5, "dead_lettered"),
    SettledRange(5, 8, "filtered"),
    SettledRange(9, 10, "expired"),
)
SETTLED = {
    0: "acked",
    2: "acked",
    3: None,
    4: "dead_lettered",
    5: "filtered",
    7: "filtered",
    8: None,
    9: "expired",
    10: None,
}
"""The fates of some offsets in the history."""


def dead_letter(offset: int) -> DeadLetter:
    return DeadLetter(
        new_uid(),
        offset,
        "id",
        None,
        {},
        None,
        1,
        "rejected",
        "bad",
        4,
        1,
        2,
        3,
        new_uid(),
        0,
        0,
        9,
    )


async def topic_and_cursor(world: World) -> tuple[Topic, CursorState]:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    (cursor,) = (await world.claim(await world.forwarder(), topic))[0].cursors
    return topic, cursor


def flushed(cursor: CursorState) -> CursorUpdate:
    """Return an update with 0–2 acked, 3 failed, 4 dead, 5–7 filtered, 8 pending and 9 expired."""
    return CursorUpdate(
        key=cursor.key,
        epoch=cursor.epoch,
        generation=cursor.generation,
        floor=8,
        read_to=10,
        acked=((9, 10),),
        counters=Counters(acked=3, filtered=3, expired=1, dead_lettered=1),
        exceptions=1,
        stepped_over=(FAILED,),
        dead_letters=(dead_letter(4),),
        history=HISTORY,
    )


async def fate(world: World, topic: Topic, offset: int) -> MessageState:
    history = AckHistoryRepository(world.database)
    (found,) = await history.message_states(world.tenant_id, topic.uid, 0, 0, offset)
    return found


async def test_the_range_that_holds_an_offset_is_found(world: World) -> None:
    topic, cursor = await topic_and_cursor(world)
    await world.cursors.flush([flushed(cursor)])
    for offset, outcome in SETTLED.items():
        found = await fate(world, topic, offset)
        assert (found.settled and found.settled.outcome) == outcome, offset
        assert found.cursor.floor == 8


async def test_what_is_open_or_dead_says_why(world: World) -> None:
    topic, cursor = await topic_and_cursor(world)
    await world.cursors.flush([flushed(cursor)])
    failed = (await fate(world, topic, 3)).open
    assert failed is not None
    assert (failed.reason, failed.attempts, failed.detail) == ("failed", 2, "no")
    dead = (await fate(world, topic, 4)).dead
    assert dead is not None
    assert (dead.reason, dead.attempts, dead.detail) == ("rejected", 4, "bad")
    other = await fate(world, topic, 5)
    assert (other.open, other.dead) == (None, None)


async def test_another_generation_has_a_history_of_its_own(world: World) -> None:
    topic, cursor = await topic_and_cursor(world)
    await world.cursors.flush([flushed(cursor)])
    await execute(world, "UPDATE cursors SET generation = generation + 1")
    found = await fate(world, topic, 0)
    assert (found.settled, (await fate(world, topic, 4)).dead) == (None, None)
    again = replace(
        flushed(cursor),
        generation=cursor.generation + 1,
        history=(SettledRange(0, 10, "skipped"),),
    )
    await world.cursors.flush([again])
    found = await fate(world, topic, 0)
    assert found.settled is not None
    assert found.settled.outcome == "skipped"


async def execute(world: World, statement: str, *arguments: object) -> int:
    async def work(connection: Connection) -> int:
        tag = await connection.execute(statement, *arguments)
        return int(tag.rpartition(" ")[2])

    return await world.database.statement(work, writes=True)


async def test_the_history_goes_when_messages_are_trimmed_and_its_time_is_over(
    world: World,
) -> None:
    topic, cursor = await topic_and_cursor(world)
    await world.cursors.flush([flushed(cursor)])
    history = AckHistoryRepository(world.database)
    assert await history.trim(RETENTION_S) == 0, "nothing is old"
    age = f"now() - interval '{RETENTION_S + 1} s'"
    await execute(world, f"UPDATE ack_history SET settled_at = {age}")
    assert await history.trim(RETENTION_S) == 0, "nothing is trimmed"
    await execute(world, "UPDATE partitions SET trimmed_to = 8")
    assert await history.trim(RETENTION_S + 60) == 0, "topics may keep longer"
    assert await history.trim(RETENTION_S, limit=2) == 2
    assert await history.trim(RETENTION_S) == 1
    assert await history.trim(RETENTION_S) == 0
    assert (await fate(world, topic, 0)).settled is None
    last = (await fate(world, topic, 9)).settled
    assert last is not None
    assert last.outcome == "expired"
