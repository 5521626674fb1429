"""The dead-letter writer over ledgers in memory: its writes, and its behaviour while it
cannot write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from msgspec import structs

from metadata.delivery.deliveries import DeadLetter, OpenDelivery, Reason
from metadata.errors import NotFound
from metadata.types import CursorKey, Subscription, Topic, Unit
from outbox import Item, StoredPosition, TopicFull
from outbox.dead_letter import PREFIX, consumers_detail, not_written, revived, why_not_written
from store_nodes.errors import TooLarge, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery import dead_letter_writer as module
from subscribe_forwarder.delivery.dead_letter_writer import DeadLetterWriter
from subscribe_forwarder.delivery.state.cursor import Settled
from subscribe_forwarder.delivery.state.ledger import Ledger, Now, Policy
from tests.unit.subscribe_forwarder.subscribe_support import (
    LOG_TIME_US,
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeQueue,
    FakeStore,
    subscription,
    topic,
)
from tests.unit.subscribe_forwarder.test_cursor import EPOCH
from tests.unit.subscribe_forwarder.test_cursor import state as cursor_state

LETTERS_UID = b"letters of dead!"


@dataclass
class FakeLedger:
    exceptions: dict[int, OpenDelivery] = field(default_factory=dict)
    buried: list[DeadLetter] = field(default_factory=list)
    settled: list[tuple[int, Settled]] = field(default_factory=list)
    resumed: set[int] = field(default_factory=set)

    def settle(self, offsets: Sequence[int], how: Settled) -> int:
        self.settled += [(offset, how) for offset in offsets]
        return len(offsets)

    def add_dead_letter(self, dead_letter: DeadLetter) -> bool:
        if dead_letter.offset in self.resumed:
            return False
        self.buried.append(dead_letter)
        return self.exceptions.pop(dead_letter.offset, None) is not None

    def dead_letter_failed(self, offset: int, detail: str) -> None:
        self.exceptions[offset] = replace(self.exceptions[offset], detail=detail)


@dataclass
class FakeCursor:
    key: CursorKey = field(default_factory=lambda: CursorKey(TENANT, SUBSCRIPTION_UID, 0))
    generation: int = 1


@dataclass(eq=False)
class FakeReader:
    ledger: FakeLedger = field(default_factory=FakeLedger)
    cursor: FakeCursor = field(default_factory=FakeCursor)
    partition: Unit = field(default_factory=lambda: Unit(TENANT, TOPIC_UID, 0))
    frozen: bool = False


class World:
    """`offsets` of one reader are dead; `appended` holds what was written, each name once."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.store.queues[QueueId(TOPIC_UID, 0)] = FakeQueue()
        self.reader = FakeReader()
        self.topics: dict[str, Topic] = {"graves": topic(name="graves", uid=LETTERS_UID)}
        self.subscription = structs.replace(subscription(), dead_letter_topic="graves")
        self.appended: dict[bytes, Message] = {}
        self.failure: Callable[[Sequence[Item]], None] = lambda items: None
        self.appends = 0
        self.noted = 0
        self.dead_letter_writer = DeadLetterWriter(self, self, self.store, self._note)  # type: ignore[arg-type]

    def _note(self, reader: object) -> None:
        self.noted += 1

    def dies(self, offset: int, reason: Reason = Reason.EXHAUSTED, **fields: Any) -> None:
        dead = OpenDelivery(offset, 3, reason, **fields)
        self.reader.ledger.exceptions[offset] = dead
        self.dead_letter_writer.add(self.reader, dead)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)

    # As an outbox and a catalog.

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        self.appends += 1
        await asyncio.sleep(0)
        self.failure(items)
        placed = []
        for item in items:
            known = item.name in self.appended
            self.appended.setdefault(item.name, item.message)
            placed.append(StoredPosition(0, 0, list(self.appended).index(item.name), known, "id"))
        return placed

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        if name not in self.topics:
            raise NotFound("topic", name)
        return self.topics[name]

    async def topic_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        return topic()

    async def subscriptions_of(self, tenant_id: bytes, uid: bytes) -> tuple[Subscription, ...]:
        return (self.subscription,)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "MIN_BACKOFF_S", 0.001)
    monkeypatch.setattr(module, "MAX_BACKOFF_S", 0.02)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.002)
    return World()


async def test_a_dead_letter_tells_where_it_comes_from(world: World) -> None:
    message = Message(b"{}", "application/json", "k", {"own": "1"}, ttl_ms=5, idempotency_key="i")
    world.store.publish(b"other", message)
    world.dies(1, Reason.REJECTED, detail="no such", first_us=1_000_001, last_us=2_000_000)
    await world.until(lambda: bool(world.reader.ledger.buried))
    (written,) = world.appended.values()
    about = {n.removeprefix(PREFIX): v for n, v in (written.attributes or {}).items()}
    assert about.pop("message-id") == world.reader.ledger.buried[0].message_id
    assert about.pop("publish-time").startswith("2025-12-31T23:59:59.123456")
    assert about == {
        "own": "1",
        "reason": "rejected",
        "detail": "no such",
        "attempts": "3",
        "first-at": "1970-01-01T00:00:01.000001Z",
        "last-at": "1970-01-01T00:00:02.000000Z",
        "subscription": "reader",
        "topic": "orders",
        "offset": "1",
        "partition": "0",
    }
    assert (written.data, written.content_type, written.key) == (b"{}", "application/json", "k")
    assert (written.ttl_ms, written.idempotency_key) == (0, None)
    row = world.reader.ledger.buried[0]
    assert (row.offset, row.attributes, row.letter_topic_uid) == (1, {"own": "1"}, LETTERS_UID)
    assert (row.size_bytes, row.detail, row.publish_us) == (2, "no such", LOG_TIME_US)
    assert written.origin == {"dead_letter_of": row.message_id}
    assert world.dead_letter_writer.pending == 0
    assert world.noted == 1


async def test_many_go_in_one_append_in_order_and_each_once(world: World) -> None:
    world.store.publish(*[b"%d" % n for n in range(300)])
    for offset in range(300):
        world.dies(offset)
        world.dead_letter_writer.add(world.reader, world.reader.ledger.exceptions[offset])
    await world.until(lambda: len(world.reader.ledger.buried) == 300)
    assert world.appends == 2
    rows = world.reader.ledger.buried
    assert [row.offset for row in sorted(rows, key=lambda row: row.uid)] == list(range(300))


async def test_without_its_topic_it_waits_says_why_and_heals(world: World) -> None:
    world.store.publish(b"a")
    graves = world.topics.pop("graves")
    world.dies(0, detail="it said so")
    detail = lambda: world.reader.ledger.exceptions[0].detail  # noqa: E731
    await world.until(lambda: why_not_written(detail()) == "there is no topic 'graves'")
    assert consumers_detail(detail()) == "it said so"
    await asyncio.sleep(0.05)
    assert world.noted == 1, "what is said already is not written again"
    world.topics["graves"] = graves
    await world.until(lambda: bool(world.reader.ledger.buried))
    assert world.reader.ledger.buried[0].detail == "it said so"


async def test_an_append_that_fails_is_repeated_under_its_name(world: World) -> None:
    world.store.publish(b"a", b"b")
    failures = [TopicFull("topic-full", "at its limit"), Unavailable("no leader")]

    def fail(items: Sequence[Item]) -> None:
        if failures:
            for item in items:
                world.appended.setdefault(item.name, item.message)
            raise failures.pop()

    world.failure = fail
    world.dies(0)
    world.dies(1)
    await world.until(lambda: len(world.reader.ledger.buried) == 2)
    assert len(world.appended) == 2


async def test_one_that_is_too_large_holds_up_no_other(world: World) -> None:
    world.store.publish(b"a", b"large", b"b")

    def fail(items: Sequence[Item]) -> None:
        if any(item.message.data == b"large" for item in items):
            raise TooLarge("over the limit")

    world.failure = fail
    for offset in range(3):
        world.dies(offset)
    await world.until(lambda: len(world.reader.ledger.buried) == 2)
    await world.until(
        lambda: why_not_written(world.reader.ledger.exceptions[1].detail) == "over the limit"
    )
    await world.dead_letter_writer.close()


async def test_what_is_truncated_is_expired(world: World) -> None:
    world.store.publish(b"a", b"b")
    world.store.queues[QueueId(TOPIC_UID, 0)].first = 1
    world.store.queues[QueueId(TOPIC_UID, 0)].entries.clear()
    world.store.queues[QueueId(TOPIC_UID, 0)].first = 2
    world.dies(0)
    await world.until(lambda: bool(world.reader.ledger.settled))
    assert world.reader.ledger.settled == [(0, Settled.EXPIRED)]
    assert not world.appended


async def test_what_is_rejected_again_after_a_seek_is_another_dead_letter(world: World) -> None:
    world.store.publish(b"a")
    for generation in (1, 2):
        world.reader.cursor.generation = generation
        world.dies(0, Reason.REJECTED)
        await world.until(lambda: 0 not in world.reader.ledger.exceptions)
    assert len(world.appended) == 2


async def test_a_reader_that_changed_hands_is_not_touched(world: World) -> None:
    world.store.publish(b"a")
    before = world.reader.ledger

    def reset(items: Sequence[Item]) -> None:
        world.reader.ledger = FakeLedger(dict(before.exceptions))

    world.failure = reset
    world.dies(0)
    await world.until(lambda: world.dead_letter_writer.pending == 0)
    assert not before.buried
    world.failure = lambda items: None
    world.dead_letter_writer.look(world.reader)
    await world.until(lambda: bool(world.reader.ledger.buried))
    assert len(world.appended) == 1


async def test_what_a_reader_in_doubt_had_is_done_when_it_goes_on(world: World) -> None:
    world.store.publish(b"a")

    def freeze(items: Sequence[Item]) -> None:
        world.reader.frozen = True

    world.failure = freeze
    world.dies(0)
    await world.until(lambda: world.dead_letter_writer.pending == 0)
    assert not world.reader.ledger.buried
    world.failure = lambda items: None
    world.reader.frozen = False
    await world.until(lambda: bool(world.reader.ledger.buried))
    assert len(world.appended) == 1


async def test_a_key_that_is_resumed_while_its_head_is_dead_lettered_says_so(world: World) -> None:
    """The round was ended by an assertion, and with it every dead letter beside this one."""
    world.store.publish(b"a", b"b")
    world.failure = lambda items: world.reader.ledger.resumed.add(0)
    dead = OpenDelivery(0, 3, Reason.EXHAUSTED)
    world.reader.ledger.exceptions[0] = dead
    told = asyncio.ensure_future(world.dead_letter_writer.write_now(world.reader, dead))
    await asyncio.sleep(0)
    world.dies(1)
    assert await told == "its key was resumed meanwhile"
    await world.until(lambda: world.dead_letter_writer.pending == 0)
    assert [row.offset for row in world.reader.ledger.buried] == [1]


async def test_what_is_over_the_bound_is_found_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 10)
    world.store.publish(*[b"%d" % n for n in range(35)])
    for offset in range(35):
        world.dies(offset)
    assert world.dead_letter_writer.pending == 10
    await world.until(lambda: len(world.reader.ledger.buried) == 35)


def test_details_keep_what_the_consumer_said() -> None:
    twice = not_written("second", not_written("first\nof all", "said\nthis"))
    assert (why_not_written(twice), consumers_detail(twice)) == ("second", "said\nthis")
    assert consumers_detail(not_written("why", None)) is None
    assert (why_not_written("said"), why_not_written(None)) == (None, None)


def test_a_redriven_message_is_the_one_it_was_with_its_edits() -> None:
    letter = Message(b"old", "text/plain", "k", {"a": "1", "b": "2", PREFIX + "reason": "x"})
    same = revived(letter, {}, b"u" * 16, b"s" * 16)
    assert (same.data, same.key, same.attributes) == (b"old", "k", {"a": "1", "b": "2"})
    assert same.origin == {"redriven_from": (b"u" * 16).hex(), "only": (b"s" * 16).hex()}
    edit = {"attributes": {"a": None, "c": "3"}, "data_base64": "bmV3", "key": None}
    other = revived(letter, edit, b"u" * 16, None)
    assert (other.data, other.key, other.attributes) == (b"new", None, {"b": "2", "c": "3"})
    assert other.origin == {"redriven_from": (b"u" * 16).hex()}


async def test_an_ack_while_a_letter_is_written_wins_and_settles_once(world: World) -> None:
    """The letter that was written stays in its topic; it is not listed, nor counted."""
    ledger = Ledger(cursor_state(), EPOCH, Policy(max_attempts=1))
    ledger.classify(1)
    now = Now(1_000, 1_700_000_000_000_000)
    ledger.lease([0], now, 2_000)
    assert ledger.reject(0, now, None)
    ledger.wrote(ledger.update())
    world.reader.ledger = ledger  # type: ignore[assignment]
    world.store.publish(b"a")

    def acks(items: Sequence[Item]) -> None:
        ledger.settle([0], Settled.ACKED)

    world.failure = acks
    world.dead_letter_writer.add(world.reader, ledger.exceptions[0])
    await world.until(lambda: world.dead_letter_writer.pending == 0)
    assert len(world.appended) == 1
    update = ledger.update()
    assert (update.dead_letters, update.closed, update.exceptions) == ((), (0,), 0)
    assert (update.counters.acked, update.counters.dead_lettered) == (1, 0)
    assert ledger.cursor.balanced()
