"""The due index and what became of forwarded messages, on a real Postgres."""

from __future__ import annotations

import pytest

from metadata.database import Database
from metadata.delivery.due import Due, DueRepository, Progress, QueueKey
from metadata.delivery.forwarded import Forwarded, ForwardedRepository
from metadata.errors import LeaseLost
from metadata.ids import new_uid
from metadata.locks.locks import Lock, LockRepository
from tests.integration.metadata.world import World

A = QueueKey(new_uid(), new_uid(), 0, 0, 0)
B = A._replace(partition=1)


async def locked(database: Database) -> Lock:
    lock = await LockRepository(database).take("scheduler", new_uid())
    assert lock is not None
    return lock


async def test_rows_come_back_in_order_of_their_times(database: Database) -> None:
    due, lock = DueRepository(database), await locked(database)
    rows = [Due(A, 0, 30), Due(A, 1, 10), Due(B, 0, 20), Due(B, 7, 99)]
    await due.write(lock, rows, (), {A: Progress(2, 0), B: Progress(8, 3)})
    assert [row.due_us for row in await due.due_until(30, 10)] == [10, 20, 30]
    assert await due.due_until(30, 1) == [Due(A, 1, 10)]
    assert await due.progress() == {A: Progress(2, 0), B: Progress(8, 3)}


async def test_a_row_moves_and_goes(database: Database) -> None:
    due, lock = DueRepository(database), await locked(database)
    await due.write(lock, [Due(A, 0, 30), Due(A, 1, 40)], (), {})
    await due.write(lock, [Due(A, 0, 5)], [(A, 1), (B, 1)], {})
    assert await due.due_until(2**62, 10) == [Due(A, 0, 5)]
    await due.write(lock, [Due(A, 1, 6)], [(A, 1)], {})  # gone first, then put
    assert await due.due_until(2**62, 10) == [Due(A, 0, 5), Due(A, 1, 6)]


async def test_an_old_scheduler_writes_nothing(database: Database) -> None:
    due, locks = DueRepository(database), LockRepository(database)
    old = await locked(database)
    await locks.release(old)
    new = await locked(database)
    await due.write(new, [Due(A, 0, 30)], (), {})
    with pytest.raises(LeaseLost):
        await due.write(old, [Due(A, 0, 99)], (), {A: Progress(9, 9)})
    with pytest.raises(LeaseLost):
        await due.forget(old, A)
    with pytest.raises(LeaseLost):
        await due.forget_orphans(old, 2**62)
    assert await due.due_until(2**62, 10) == [Due(A, 0, 30)]
    assert await due.progress() == {}


async def test_a_queue_that_is_gone_is_forgotten_in_small_steps(database: Database) -> None:
    due, lock = DueRepository(database), await locked(database)
    rows = [Due(A, number, number) for number in range(25)]
    await due.write(lock, [*rows, Due(B, 0, 1)], (), {A: Progress(25, 0), B: Progress(1, 0)})
    steps = 1
    while not await due.forget(lock, A, rows=10):
        assert A in await due.progress()
        steps += 1
    assert steps == 3
    assert await due.due_until(2**62, 100) == [Due(B, 0, 1)]
    assert await due.progress() == {B: Progress(1, 0)}


async def test_overdue_rows_of_queues_that_are_gone_are_dropped(world: World) -> None:
    due, lock = DueRepository(world.database), await locked(world.database)
    topic = await world.topic(partitions=1)
    there = QueueKey(world.tenant_id, topic.uid, 0, 0, 0)
    gone = there._replace(generation=1)
    rows = [Due(queue, number, number) for queue in (there, gone, A) for number in (1, 9)]
    await due.write(lock, rows, (), {})
    await due.forget_orphans(lock, before_us=5)
    left = [(row.queue, row.stage_number) for row in await due.due_until(100, 100)]
    assert sorted(left) == sorted([(there, 1), (there, 9), (gone, 9), (A, 9)])


async def test_forwarded_messages_are_found_until_they_are_trimmed(world: World) -> None:
    topic = await world.topic(partitions=2)
    queue = QueueKey(world.tenant_id, topic.uid, 0, 0, 0)
    forwarded = ForwardedRepository(world.database)
    await forwarded.record(queue, [Forwarded(1, 0, 10), Forwarded(2, 1, 4)])
    await forwarded.record(queue, [Forwarded(1, 0, 77), Forwarded(3, 0, 12)])  # 1 is kept
    assert await forwarded.find(queue, [1, 2, 3, 4]) == {
        1: Forwarded(1, 0, 10),
        2: Forwarded(2, 1, 4),
        3: Forwarded(3, 0, 12),
    }
    assert await forwarded.find(queue._replace(generation=1), [1]) == {}
    await forwarded.forget(world.tenant_id, topic.uid, 0, 0, below=12)
    assert set(await forwarded.find(queue, [1, 2, 3])) == {2, 3}
    await world.topics.mark_deleting(world.tenant_id, topic.name)
    await world.topics.remove(world.tenant_id, topic.uid)
    await forwarded.forget_topics()
    assert await forwarded.find(queue, [1, 2, 3]) == {}
