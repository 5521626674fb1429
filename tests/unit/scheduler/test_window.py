"""The messages in memory and in the index; none is in neither."""

from __future__ import annotations

import pytest

from metadata.delivery.due import Progress, QueueKey
from metadata.errors import MetadataUnavailable
from scheduler.pending import StagedQueue
from scheduler.window import Window
from tests.unit.scheduler.scheduler_support import SECOND, FakeIndex

KEY = QueueKey(bytes(16), bytes(16), 0, 0, 0)


class Clock:
    def __init__(self) -> None:
        self.us = 0

    def now_us(self) -> int:
        return self.us


class World:
    """One queue, a window of 10 s, and a clock that stands."""

    def __init__(self, max_pending: int = 100) -> None:
        self.index = FakeIndex()
        self.queue = StagedQueue(KEY, 0, Progress())
        self.clock = Clock()
        self.woken = 0
        self.window = Window(
            self.index,  # type: ignore[arg-type]
            length_s=10.0,
            max_pending=max_pending,
            find=lambda key: self.queue if key == KEY else None,
            wake=self._wake,
            clock=lambda group: self.clock,
        )

    def _wake(self, group: int) -> None:
        self.woken += 1

    def learn(self, *due_s: float, first: int = 0, fresh: bool = True) -> None:
        for number, due in enumerate(due_s, first):
            self.window.learned(self.queue, number, round(due * SECOND), fresh=fresh)

    async def load(self) -> None:
        await self.window.load(self.clock.us, self.index.lock())

    def held(self) -> list[int]:
        return sorted(self.queue.due)

    def due(self) -> list[int]:
        self.window.heap(0).pop_due(self.clock.us)
        ready = list(self.queue.ready)
        self.queue.ready.clear()
        return ready


async def test_what_waits_to_be_written_is_not_missed_by_a_load() -> None:
    world = World()
    await world.load()
    world.learn(5, 15, 25)
    assert world.held() == [0]
    world.clock.us = 6 * SECOND
    await world.load()
    assert world.held() == [0, 1]
    assert world.index.rows[KEY, 2] == 25 * SECOND


async def test_a_load_that_fails_leaves_the_window_where_it_was() -> None:
    world = World()
    await world.load()
    world.learn(15)
    world.clock.us = 6 * SECOND
    world.index.trouble.append(MetadataUnavailable("away"))
    with pytest.raises(MetadataUnavailable):
        await world.load()
    assert world.window.until_us == 10 * SECOND
    assert world.window.wants_more(world.clock.us)
    await world.load()
    assert world.held() == [0]


async def test_news_is_not_undone_by_an_older_row() -> None:
    """A row is read while its message was rescheduled, or released, since it was written."""
    world = World()
    await world.load()
    world.learn(15, 16)
    await world.window.projection.write(world.index.lock())
    world.clock.us = 6 * SECOND
    read = world.index.due_until

    async def reads_slowly(until_us: int, limit: int) -> list[object]:
        rows = await read(until_us, limit)
        world.learn(99, fresh=False)
        world.window.projection.gone(KEY, 1)
        return rows

    world.index.due_until = reads_slowly  # type: ignore[method-assign, assignment]
    await world.load()
    assert world.held() == []


async def test_a_message_that_moves_out_of_the_window_leaves_memory() -> None:
    world = World()
    await world.load()
    world.learn(5, 6)
    world.learn(50, first=0, fresh=False)
    world.clock.us = 9 * SECOND
    assert world.due() == [1]
    assert world.held() == [1]


async def test_a_message_is_due_once_however_often_it_is_learned() -> None:
    world = World()
    await world.load()
    for due in (5, 4, 6, 5):
        world.learn(due, fresh=False)
    world.clock.us = 9 * SECOND
    assert world.due() == [0]
    assert world.window.held == 1


async def test_a_crowded_window_narrows_to_the_soonest() -> None:
    world = World(max_pending=10)
    await world.load()
    world.learn(*[9 - n / 10 for n in range(60)])
    assert world.window.held < 20
    assert world.window.until_us < 9 * SECOND
    soonest = min(world.queue.due.values())[0]
    assert soonest == round(3.1 * SECOND)
    seen: list[int] = []
    for _ in range(20):
        world.clock.us += SECOND // 2
        await world.window.projection.write(world.index.lock())
        if world.window.wants_more(world.clock.us):
            await world.load()
        for number in world.due():
            seen.append(number)
            world.window.removed(world.queue, number)
    world.clock.us = 20 * SECOND
    while len(seen) < 60:
        await world.load()
        ready = world.due()
        assert ready
        for number in ready:
            seen.append(number)
            world.window.removed(world.queue, number)
    assert sorted(seen) == list(range(60))
    await world.window.projection.write(world.index.lock())
    assert world.index.rows == {}


async def test_what_is_forgotten_leaves_nothing_behind() -> None:
    world = World()
    await world.load()
    world.learn(5, 50)
    world.window.forget(world.queue)
    assert world.window.held == 0
    assert len(world.window.projection) == 0
    world.clock.us = 9 * SECOND
    assert world.due() == []


async def test_written_rows_of_released_messages_go_and_unwritten_ones_never_come() -> None:
    world = World()
    await world.load()
    world.learn(5, 6)
    world.window.removed(world.queue, 0)
    await world.window.projection.write(world.index.lock())
    assert world.index.written == 1
    world.learn(7, first=1, fresh=False)  # rescheduled: it has a row, and a newer one waits
    world.window.removed(world.queue, 1)
    await world.window.projection.write(world.index.lock())
    assert world.index.rows == {}


async def test_a_write_that_failed_is_made_again_with_what_came_since() -> None:
    world = World()
    await world.load()
    world.learn(5, 6, 7)
    world.window.projection.advance(KEY, Progress(3, 0))
    world.index.trouble.append(MetadataUnavailable("away"))
    with pytest.raises(MetadataUnavailable):
        await world.window.projection.write(world.index.lock())
    assert world.index.kept == {}
    world.learn(8, first=1, fresh=False)
    world.window.removed(world.queue, 2)
    await world.window.projection.write(world.index.lock())
    assert world.index.rows == {(KEY, 0): 5 * SECOND, (KEY, 1): 8 * SECOND}
    assert world.index.kept == {KEY: Progress(3, 0)}
