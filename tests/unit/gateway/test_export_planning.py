"""Offsets of exports, over a store in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.exports.planning import Offsets, Window, lanes_of
from metadata.exports.types import Lane, LaneEnd, LaneRange, LaneState
from metadata.types import Partition, Retention, Topic, TopicState
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Store:
    """Each queue has one message a second, the first of which was `first` seconds after NOW."""

    def __init__(self, bounds: dict[tuple[int, int], tuple[int, int]]) -> None:
        self.bounds = bounds
        self.down = False

    async def offsets(self, group: int, queue: QueueId) -> Any:
        if self.down:
            raise Unavailable("down")
        first, end = self.bounds[queue.partition, queue.lane]
        return SimpleNamespace(first=first, end=end)

    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int:
        first, end = self.bounds[queue.partition, queue.lane]
        after_s = -(-time_us // 1_000_000) - int(NOW.timestamp())
        return min(max(after_s, first), end)


def topic(partitions: int, priorities: int = 1, name: str = "orders") -> Topic:
    return Topic(
        tenant_id=bytes(16),
        uid=name.encode().ljust(16, b"_"),
        name=name,
        state=TopicState.ACTIVE,
        partitions=tuple(
            Partition(number, 0, lane) for number in range(partitions) for lane in range(priorities)
        ),
        retention=Retention(),
        dedup_window_s=0,
        labels={},
        version=1,
        created_at=NOW,
        updated_at=NOW,
        priorities=priorities,
    )


ORDERS = topic(2)
FIRST, SECOND = lanes_of(ORDERS)


@pytest.fixture
def store() -> Store:
    return Store({(0, 0): (10, 30), (1, 0): (0, 0)})


@pytest.fixture
def offsets(store: Store) -> Offsets:
    return Offsets(store)


def test_lanes() -> None:
    lanes = lanes_of(topic(2, 2))
    assert [(each.partition, each.lane) for each in lanes] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert lanes[0] == Lane("orders", b"orders__________", 0, 0)


@pytest.mark.parametrize(
    ("start", "first", "second"),
    [
        ("earliest", 10, 0),
        ("latest", 30, 0),
        ("2026-01-01T00:00:20+00:00", 20, 0),
        ("2025-01-01T00:00:00+00:00", 10, 0),
    ],
)
async def test_starts(offsets: Offsets, start: str, first: int, second: int) -> None:
    assert await offsets.starts([ORDERS], start) == [(FIRST, first), (SECOND, second)]


async def test_ends_and_states(offsets: Offsets) -> None:
    assert await offsets.ends([ORDERS]) == [LaneEnd(FIRST, 30), LaneEnd(SECOND, 0)]
    gone = LaneState(Lane("gone", bytes(16), 0, 0), 5, 9)
    known = [LaneState(FIRST, 12, 15), gone]
    assert await offsets.states([ORDERS], known) == [
        LaneState(FIRST, 12, 30),
        LaneState(SECOND, 0, 0),
    ]
    # A lane that is not known yet begins with its first stored message.
    assert await offsets.states([ORDERS], []) == [
        LaneState(FIRST, 10, 30),
        LaneState(SECOND, 0, 0),
    ]


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(NOW.timestamp() + seconds, UTC)


@pytest.mark.parametrize(
    ("window", "ranges"),
    [
        (Window(), [(10, 30)]),
        (Window(from_offset=0, to_offset=12), [(10, 12)]),
        (Window(from_offset=29), [(29, 30)]),
        (Window(from_offset=30), []),
        (Window(from_time=at(15), to_time=at(20)), [(15, 20)]),
        (Window(from_time=at(15), to_offset=16), [(15, 16)]),
        (Window(from_time=at(40)), []),
        (Window(from_offset=20, to_time=at(12)), []),
    ],
)
async def test_ranges(offsets: Offsets, window: Window, ranges: list[tuple[int, int]]) -> None:
    found = await offsets.ranges([ORDERS], window)
    assert [(each.start, each.end) for each in found] == ranges


async def test_ranges_of_what_is_exported(offsets: Offsets, store: Store) -> None:
    store.bounds[1, 0] = (0, 5)
    exported = [LaneState(FIRST, 14, 30)]
    found = await offsets.ranges([ORDERS], Window(), upto=exported)
    assert found == [LaneRange(FIRST, 10, 14)]
    found = await offsets.ranges([ORDERS], Window(), partition=1)
    assert found == [LaneRange(SECOND, 0, 5)]
    assert await offsets.ranges([ORDERS], Window(), partition=1, upto=exported) == []


async def test_a_store_that_does_not_answer(offsets: Offsets, store: Store) -> None:
    store.down = True
    with pytest.raises(ExceptionGroup) as failed:
        await offsets.ends([ORDERS])
    assert failed.value.split(Unavailable)[1] is None
