from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.errors import LeaseLost, MetadataError, MetadataUnavailable, OutcomeUnknown
from metadata.locks.locks import Lock
from metadata.topics.schedules import DueSchedule, Progress
from metadata.types import Change, ChangeKind, Retention, Topic, TopicState
from outbox import Item, StoredPosition, TopicFull
from scheduler.cron import Cron
from scheduler.cron_round import items_of
from store_nodes.errors import Unavailable
from store_nodes.record_batch import Message

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOCK = Lock(bytes(16), "scheduler", bytes(16), 1, 1e18)
TOPIC = Topic(
    tenant_id=bytes(16),
    uid=bytes(16),
    name="t",
    state=TopicState.ACTIVE,
    partitions=(),
    retention=Retention(),
    dedup_window_s=600,
    labels={},
    version=1,
    created_at=START,
    updated_at=START,
)


class Faults:
    """Faults before or after a step, in the order in which a test drew them."""

    def __init__(self, drawn: Sequence[str] = ()) -> None:
        self._drawn = list(drawn)

    def take(self) -> str:
        return self._drawn.pop(0) if self._drawn else ""


class World:
    """Postgres and the log, as far as schedules see them, with time that a test moves."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.now = START
        self.seconds = 0.0
        self.rows: dict[bytes, DueSchedule] = {}
        self.runs: dict[bytes, int] = {}
        self.missed: dict[bytes, int] = {}
        self.failures: dict[bytes, str | None] = {}
        self.log: dict[bytes, Message] = {}
        self.reads = self.writes = self.appends = 0
        self.topic = TOPIC

    def add(self, number: int, policy: str = "all", cron: str = "@hourly") -> bytes:
        uid = number.to_bytes(2) * 8
        message = msgspec.msgpack.encode(Message(b"x", attributes={"a": "b"}))
        due = DueSchedule(
            bytes(16), uid, bytes(16), f"s{number}", cron, "UTC", policy, message, START + HOUR
        )
        self.rows[uid], self.runs[uid], self.missed[uid] = due, 0, 0
        return uid

    async def due(self, limit: int, besides: Sequence[bytes] = ()) -> list[DueSchedule]:
        self.reads += 1
        rows = [row for uid, row in self.rows.items() if uid not in besides]
        return sorted(rows, key=lambda row: row.next_at)[:limit]

    async def ran(self, lock: Lock, done: Sequence[tuple[DueSchedule, Progress]]) -> None:
        self.writes += 1
        fault = self.faults.take()
        if fault == "before":
            raise MetadataUnavailable("away")
        for due, progress in done:
            row = self.rows[due.uid]
            if row.next_at == due.next_at:
                self.runs[due.uid] += progress.runs
                self.missed[due.uid] += progress.missed
                self.failures[due.uid] = None
                assert progress.then is not None
                self.rows[due.uid] = row._replace(next_at=progress.then)
        if fault == "after":
            raise OutcomeUnknown("lost")
        if fault == "lease":
            raise LeaseLost("over")

    async def failed(self, lock: Lock, failures: Sequence[tuple[DueSchedule, str]]) -> None:
        for due, failure in failures:
            self.failures[due.uid] = failure

    async def get_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        return self.topic

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        self.appends += 1
        fault = self.faults.take()
        if topic.full is not None:
            raise TopicFull(topic.full, topic.full_detail)
        if fault == "before":
            raise Unavailable("no leader")
        known = [item.name in self.log for item in items]
        self.log |= {item.name: item.message for item in items if item.name not in self.log}
        if fault == "after":
            raise Unavailable("not answered")
        return [StoredPosition(0, 0, 0, known[n], item.name.hex()) for n, item in enumerate(items)]

    def cron(self) -> Cron:
        return Cron(self, self, self, wall=lambda: self.now, monotonic_s=lambda: self.seconds)

    def made(self, uid: bytes) -> list[str]:
        times = "packetboat-scheduled-time"
        found = [m for name, m in self.log.items() if uid in name]
        return sorted((message.attributes or {})[times] for message in found)


async def settle(world: World, cron: Cron) -> Cron:
    """Rounds until nothing is due; a lost lease is another scheduler's turn."""
    for _ in range(300):
        try:
            wait_s = await cron.round(lambda: LOCK)
        except LeaseLost:
            cron = world.cron()
            continue
        except MetadataError:
            continue
        if wait_s:
            if all(row.next_at > world.now for row in world.rows.values()):
                return cron
            world.seconds += wait_s
    raise AssertionError("it never settles")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["", "", "before", "after", "lease"]), max_size=30),
    st.lists(st.sampled_from([1, 2, 120]), min_size=1, max_size=4),
)
async def test_each_run_is_published_once_whatever_fails(
    faults: list[str], hours: list[int]
) -> None:
    world = World(Faults(faults))
    uids = [world.add(number) for number in (1, 2)]
    cron = world.cron()
    for some in hours:
        world.now += some * HOUR
        cron = await settle(world, cron)
    expected = [START + n * HOUR for n in range(1, sum(hours) + 1)]
    for uid in uids:
        assert world.made(uid) == [f"{run:%Y-%m-%dT%H:%M:%SZ}" for run in expected]
        assert (world.runs[uid], world.missed[uid]) == (len(expected), 0)


async def test_a_run_has_its_name_and_its_time_and_the_message_stays_as_it_was() -> None:
    world = World(Faults())
    uid = world.add(1)
    item, other = items_of(world.rows[uid], [START + HOUR, START + 2 * HOUR])
    assert item.message.attributes == {
        "a": "b",
        "packetboat-schedule": "s1",
        "packetboat-scheduled-time": "2026-01-01T01:00:00Z",
    }
    assert item.name != other.name


@pytest.mark.parametrize(
    ("policy", "made", "missed"), [("skip", 1, 4), ("latest", 1, 4), ("all", 5, 0)]
)
async def test_policies(policy: str, made: int, missed: int) -> None:
    world = World(Faults())
    uid = world.add(1, policy)
    world.now = START + 5 * HOUR + timedelta(seconds=30)
    await settle(world, world.cron())
    assert (len(world.made(uid)), world.runs[uid], world.missed[uid]) == (made, made, missed)


async def test_a_failing_schedule_stays_due_shows_why_and_keeps_nobody_up() -> None:
    world = World(Faults())
    full, other = world.add(1), world.add(2)
    world.topic = replace(TOPIC, full="topic-full", full_detail="no room")
    cron = world.cron()
    world.now += HOUR
    assert await cron.round(lambda: LOCK) == 0
    assert world.failures[full] == "no room"
    waits = [await cron.round(lambda: LOCK)]
    for _ in range(6):
        world.seconds += waits[-1]
        await cron.round(lambda: LOCK)
        waits.append(await cron.round(lambda: LOCK))
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    world.topic = TOPIC
    world.seconds += 30
    await settle(world, cron)
    assert world.failures[full] is None
    assert world.runs == {full: 1, other: 1}


async def test_a_schedule_that_cannot_be_read_does_not_stop_the_others() -> None:
    world = World(Faults())
    bad, good = world.add(1), world.add(2)
    world.rows[bad] = world.rows[bad]._replace(message=b"?")
    world.now += HOUR
    await world.cron().round(lambda: LOCK)
    assert world.runs == {bad: 0, good: 1}
    assert "internal" in str(world.failures[bad])


async def test_nothing_is_asked_while_nothing_is_near_and_a_change_is_heard() -> None:
    world = World(Faults())
    world.add(1)
    cron = world.cron()
    running = asyncio.create_task(cron.run(lambda: LOCK))
    try:
        for _ in range(20):
            await asyncio.sleep(0)
        assert world.reads == 1
        await cron.on_feed([Change(1, ChangeKind.TOPIC, bytes(16), b"", "")])
        for _ in range(20):
            await asyncio.sleep(0)
        assert world.reads == 1
        change: Any = Change(2, ChangeKind.SCHEDULE, bytes(16), b"", "")
        await cron.on_feed([change])
        for _ in range(20):
            await asyncio.sleep(0)
        assert world.reads == 2
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_thousand_due_at_once_take_an_append_and_a_write_a_round() -> None:
    world = World(Faults())
    uids = [world.add(number) for number in range(1_000)]
    world.now += HOUR
    await settle(world, world.cron())
    assert all(world.runs[uid] == 1 for uid in uids)
    assert world.appends == world.writes == 5


async def test_a_message_that_is_refused_or_a_partition_that_is_away_fails_alone() -> None:
    world = World(Faults())
    bad, *good = [world.add(number) for number in range(3)]
    append = world.append

    async def refusing(topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        if any(bad in item.name for item in items):
            raise Unavailable("no leader")
        return await append(topic, items)

    cron = Cron(world, world, Refusing(refusing), wall=lambda: world.now, monotonic_s=lambda: 0.0)
    for hours in (1, 2):
        world.now += HOUR
        await cron.round(lambda: LOCK)
        assert [world.runs[uid] for uid in good] == [hours, hours]
    assert world.runs[bad] == 0
    assert "no leader" in str(world.failures[bad])


async def test_a_long_time_due_is_made_in_rounds_of_bounded_size() -> None:
    world = World(Faults())
    uids = [world.add(number) for number in range(15)]
    for uid in uids[:2]:
        message = msgspec.msgpack.encode(Message(bytes(9 * 1024 * 1024)))
        world.rows[uid] = world.rows[uid]._replace(message=message)
    sizes: list[int] = []
    append = world.append

    async def counting(topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        sizes.append(sum(len(item.message.data) for item in items))
        return await append(topic, items)

    cron = Cron(world, world, Refusing(counting), wall=lambda: world.now, monotonic_s=lambda: 0.0)
    world.now += 3 * HOUR
    await settle(world, cron)
    assert all(world.runs[uid] == 3 for uid in uids)
    assert max(sizes) < 3 * 9 * 1024 * 1024


class Refusing:
    """An outbox that does as a test says."""

    def __init__(self, append: Any) -> None:
        self.append = append
