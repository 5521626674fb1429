"""Redrives over rows in memory: what is published, counted, waited for, and ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from metadata.errors import LeaseLost, MetadataUnavailable, NotFound
from metadata.subscriptions.dead_letters import DeadLetterPosition, StoredDeadLetter
from metadata.subscriptions.redrives import Redrive, RedriveState, Unfinished
from metadata.types import Partition, Retention, Topic, TopicState
from outbox import Item, StoredPosition
from outbox.dead_letter_filter import compile_filter
from outbox.reading import Stored
from scheduler import redriving as module
from scheduler.redriving import Redriving
from scheduler.term import Term
from store_nodes.errors import Unavailable
from store_nodes.record_batch import Message
from tests.loop_cpu import MAX_CALLBACK_MS, cpu_ms

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
TENANT, SUBSCRIPTION, REDRIVE, LETTERS = b"t" * 16, b"s" * 16, b"r" * 16, b"l" * 16


def letter(number: int, **fields: Any) -> StoredDeadLetter:
    given = StoredDeadLetter(
        uid=number.to_bytes(16, "big"),
        generation=1,
        partition=0,
        lane=0,
        offset=number,
        message_id="id",
        key=None,
        attributes={},
        content_type=None,
        size_bytes=1,
        reason="exhausted",
        detail=None,
        attempts=3,
        first_at=None,
        last_at=None,
        publish_time=BEGAN,
        dead_at=BEGAN + timedelta(seconds=number),
        letter_topic_uid=LETTERS,
        letter_partition=0,
        letter_lane=0,
        letter_offset=number,
        state="open",
        redrive_uid=None,
    )
    return replace(given, **fields)


def topic(name: str, uid: bytes) -> Topic:
    partitions = (Partition(0, 0),)
    state = TopicState.ACTIVE
    return Topic(TENANT, uid, name, state, partitions, Retention(), 600, {}, 1, BEGAN, BEGAN)


class World:
    """The rows, the topics, the store and the outbox of one redrive."""

    def __init__(self) -> None:
        self.open = [letter(number) for number in range(10)]
        self.stored: set[int] = set(range(1000))
        self.redrive = Redrive(
            tenant_id=TENANT,
            uid=REDRIVE,
            subscription_uid=SUBSCRIPTION,
            filter=None,
            picked=False,
            destination=None,
            edit={},
            rate=None,
            state="running",
            detail=None,
            total=10,
            redriven=0,
            failed=0,
            created_at=BEGAN + timedelta(days=1),
            updated_at=BEGAN,
        )
        self.topics = {"orders": topic("orders", b"o" * 16)}
        self.published: list[Message] = []
        self.details: list[str | None] = []
        self.failures: list[Exception] = []
        self.term = Term()
        self.suspended = asyncio.Event()

    async def run(self) -> Redrive:
        """Run the redrive until it has ended."""
        redriving = Redriving(*([self] * 6), look_every_s=0.002)  # type: ignore[arg-type]
        self.term.spawn(redriving.run(self.term))
        async with asyncio.timeout(5):
            while self.redrive.state in ("running", "cancelling"):
                await asyncio.sleep(0.001)
        return self.redrive

    def __call__(self) -> None:
        """Stand for the lock, which no call of this fake looks at."""

    # As the repositories.

    async def prune(self) -> None: ...

    async def unfinished(self, limit: int) -> list[Unfinished]:
        going_on = self.redrive.state in ("running", "cancelling") and not self.suspended.is_set()
        return [Unfinished(self.redrive, "reader", "orders")] if going_on else []

    async def letters(
        self, redrive: Redrive, after: DeadLetterPosition, limit: int
    ) -> list[StoredDeadLetter]:
        return [one for one in self.open if one.place > after][:limit]

    async def progress(
        self,
        lock: None,
        redrive: Redrive,
        uids: Sequence[bytes],
        *,
        failed: int,
        detail: str | None,
    ) -> RedriveState | Literal["suspended"]:
        before = len(self.open)
        self.open = [one for one in self.open if one.uid not in uids]
        redriven = self.redrive.redriven + before - len(self.open)
        self.redrive = replace(self.redrive, redriven=redriven, failed=failed, detail=detail)
        if detail not in self.details:
            self.details.append(detail)
        running = self.redrive.state == "running"
        return "suspended" if running and self.suspended.is_set() else self.redrive.state

    async def finish(
        self, lock: None, redrive: Redrive, state: RedriveState, detail: str | None
    ) -> None:
        if self.redrive.state == "cancelling":
            state = "cancelled"
        self.redrive = replace(self.redrive, state=state, detail=detail or self.redrive.detail)

    async def get(self, tenant_id: bytes, name: str) -> Topic:
        if name not in self.topics:
            raise NotFound("topic", name)
        return self.topics[name]

    async def get_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        return topic("graves", LETTERS)

    # As the outbox.

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        if self.failures:
            raise self.failures.pop()
        self.published += [item.message for item in items]
        return []


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    world = World()

    async def read(store: object, topic: Topic, *place: Any) -> dict[int, Stored]:
        *_, offsets = place
        return {
            offset: Stored(Message(b"%d" % offset), 1, None)
            for offset in offsets
            if offset in world.stored
        }

    monkeypatch.setattr(module, "read", read)
    monkeypatch.setattr(module, "MIN_BACKOFF_S", 0.001)
    monkeypatch.setattr(module, "READ_AT_ONCE", 4)
    monkeypatch.setattr(module, "BATCH", 3)
    yield world
    await world.term.end()


async def test_all_go_back_oldest_first(world: World) -> None:
    ended = await world.run()
    assert (ended.state, ended.redriven, ended.failed) == ("done", 10, 0)
    assert [message.data for message in world.published] == [b"%d" % n for n in range(10)]
    origins = [message.origin or {} for message in world.published]
    assert {origin["only"] for origin in origins} == {SUBSCRIPTION.hex()}


async def test_a_filter_chooses(world: World) -> None:
    world.redrive = replace(world.redrive, filter="offset >= 7 && attempts == 3")
    assert (await world.run()).redriven == 3
    assert [one.offset for one in world.open] == list(range(7))


async def test_what_is_stored_no_more_is_counted_and_stays_open(world: World) -> None:
    world.stored -= {2, 3, 9}
    ended = await world.run()
    assert (ended.state, ended.redriven, ended.failed) == ("done", 7, 3)
    assert ended.detail == "3 of the messages are stored no more"
    assert [one.offset for one in world.open] == [2, 3, 9]


async def test_it_waits_and_says_why(world: World) -> None:
    world.failures = [MetadataUnavailable("no answer"), Unavailable("no leader")]
    ended = await world.run()
    assert (ended.state, ended.redriven, ended.detail) == ("done", 10, None)
    assert {"waits: no leader", "waits: no answer"} <= set(world.details)


async def test_without_its_destination_it_fails(world: World) -> None:
    world.redrive = replace(world.redrive, destination="gone")
    ended = await world.run()
    assert (ended.state, ended.detail) == ("failed", "there is no topic 'gone'")


async def test_a_cancelled_one_ends_though_it_waits(world: World) -> None:
    world.failures = [Unavailable("no leader") for _ in range(1000)]
    running = asyncio.create_task(world.run())
    while not any(world.details):
        await asyncio.sleep(0.001)
    world.redrive = replace(world.redrive, state="cancelling")
    assert (await running).state == "cancelled"
    assert not world.published


async def test_a_rate_is_kept(world: World) -> None:
    world.redrive = replace(world.redrive, rate=100.0)
    began_s = time.monotonic()
    assert (await world.run()).redriven == 10
    assert time.monotonic() - began_s >= 0.07, "ten at a hundred per second, the first batch free"


async def test_it_ends_with_the_lease(world: World) -> None:
    async def lost(*args: object, **kwargs: object) -> RedriveState:
        raise LeaseLost("another leads")

    world.progress = lost  # type: ignore[method-assign]
    running = asyncio.create_task(world.run())
    with pytest.raises(LeaseLost):
        await world.term.wait()
    await world.term.end()
    running.cancel()
    assert world.redrive.state == "running"


async def test_it_waits_for_a_suspended_tenant_and_goes_on(world: World) -> None:
    world.redrive = replace(world.redrive, rate=100.0)
    run = asyncio.create_task(world.run())
    while not world.published:
        await asyncio.sleep(0.001)
    world.suspended.set()
    before = -1
    while before != len(world.published):
        before = len(world.published)
        await asyncio.sleep(0.1)
    assert before < 10
    assert world.redrive.state == "running"
    world.suspended.clear()
    ended = await run
    assert (ended.state, ended.redriven) == ("done", 10)
    assert len(world.published) == 10


DEAREST = [
    f"[{','.join('0' * 500)}].exists(a, {' || '.join([part] * count)})"
    for part, count in (
        ("detail.contains('y')", 70),
        ("attributes.k001 == detail", 70),
        ("attributes == {}", 100),
        ("'b' in attributes", 100),
    )
]


@pytest.mark.parametrize(
    "text", [*DEAREST, "detail.matches('([^c]){9}y') || key.matches('([^c]){9}y')"]
)
def test_a_filter_of_dead_letters_takes_no_longer_than_a_callback_may(text: str) -> None:
    """A filter of dead letters sees no body and no list.

    With the most expensive filter and the largest letter, one evaluation is short enough; other
    tasks run between two of them.
    """
    attributes = {f"k{number:03}": "v" * 1024 for number in range(100)}
    largest = letter(1, detail="d" * 1024, reason="r" * 1024, key="k" * 1024, attributes=attributes)
    wanted = compile_filter(text)
    took_ms, matched = cpu_ms(lambda: wanted(largest))
    assert not matched
    assert took_ms < MAX_CALLBACK_MS
