"""Delayed messages are released when due, once, with any failure, and by any scheduler that
leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from metadata.delivery.due import Progress, QueueKey
from metadata.errors import LeaseLost, MetadataUnavailable
from scheduler import listing, projection, releasing
from scheduler.due_loop import DueLoop
from scheduler.settings import SchedulerSettings
from scheduler.term import Term
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from tests.unit.scheduler.scheduler_support import HOUR, SECOND, FakeIndex, FakeStore, until

TENANT, TOPIC = bytes(15) + b"t", bytes(range(16))
A, B = QueueId(TOPIC, 0), QueueId(TOPIC, 1)
KEY_A = QueueKey(TENANT, TOPIC, 0, 0, 0)
QUEUES = {A.pack(): (KEY_A, 0), B.pack(): (KEY_A._replace(partition=1), 1)}


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (listing, releasing):
        monkeypatch.setattr(module, "RETRY_FIRST_S", 0.001)
        monkeypatch.setattr(module, "RETRY_MAX_S", 0.01)
    monkeypatch.setattr(listing, "RECHECK_EVERY_S", 0.02)
    monkeypatch.setattr(releasing, "MAX_SLEEP_S", 0.02)


@pytest.fixture
def store() -> FakeStore:
    store = FakeStore()
    store.create(0, A)
    store.create(1, B)
    return store


@pytest.fixture
def index() -> FakeIndex:
    return FakeIndex()


@asynccontextmanager
async def leading(
    store: FakeStore, index: FakeIndex, queues: dict[bytes, Any] = QUEUES, **settings: Any
) -> AsyncIterator[DueLoop]:
    """Yield the loop of one scheduler's term, which ends like a kill: nothing is written at the
    end.
    """
    term = Term()
    made = SchedulerSettings(**{"write_every_s": 0.01, **settings})
    loop = DueLoop(store, index, index, made, term, index.lock)  # type: ignore[arg-type]
    try:
        await loop.begin(queues)
        loop.term = term  # type: ignore[attr-defined]
        yield loop
    finally:
        await term.end()
        loop.close()


@asynccontextmanager
async def suppressed(kind: type[Exception]) -> AsyncIterator[None]:
    """A term that can't begin is a term that did nothing."""
    with contextlib.suppress(kind):
        yield


def released(store: FakeStore, *numbers: int, queue: QueueId = A, group: int = 0) -> bool:
    return all(store.where(group, queue, number)[0] == "offset" for number in numbers)


async def test_a_message_is_released_when_it_is_due_and_no_sooner(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        soon = store.stage(0, A, 0.05)
        late = store.stage(0, A, 30)
        await until(lambda: released(store, soon))
        assert store.where(0, A, late) == ("staged", None)
        store.ahead_us += 30 * SECOND  # as when a leader's clock is ahead of ours
        await until(lambda: released(store, late))


async def test_each_group_has_its_own_messages_and_a_queue_batches(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        store.stage(0, A, *[0.05] * 500)
        store.stage(1, B, *[0.05] * 500)
        await until(lambda: store.end(0, A) == store.end(1, B) == 500)
    assert store.calls["release"] < 20


async def test_what_is_due_at_different_times_is_released_in_that_order(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        store.stage(0, A, 0.06, 0.02, 0.04)
        await until(lambda: store.end(0, A) == 3)
    assert [store.where(0, A, number) for number in (1, 2, 0)] == [
        ("offset", 0),
        ("offset", 1),
        ("offset", 2),
    ]


async def test_a_held_message_is_not_released_until_it_gets_a_time(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        held = store.stage_at(0, A, None)
        store.stage(0, A, 0)
        await until(lambda: store.end(0, A) == 1)
        assert store.where(0, A, held) == ("staged", None)
        store.reschedule(0, A, held, 0.02)
        await until(lambda: released(store, held))


async def test_a_rescheduled_message_comes_at_its_new_time(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        sooner, later, far = (store.stage(0, A, s) for s in (30, 0.1, 30))
        await until(lambda: store.calls["staged"] > 0)
        store.reschedule(0, A, sooner, 0.05)
        store.reschedule(0, A, later, HOUR / SECOND)
        await until(lambda: released(store, sooner))
        store.ahead_us += SECOND
        store.stage(0, A, 0)
        await until(lambda: store.end(0, A) == 2)
        assert store.where(0, A, later) == store.where(0, A, far) == ("staged", None)
        await until(lambda: index.rows.get((KEY_A, later), 0) > store.clock(0).now_us() + HOUR / 2)


async def test_a_discarded_message_is_forgotten(store: FakeStore, index: FakeIndex) -> None:
    async with leading(store, index) as loop:
        number = store.stage(0, A, 0.1)
        await until(lambda: loop.window.held == 1)
        store.cancel(0, A, number)
        await until(lambda: store.calls["release"] > 0)
        await until(lambda: loop.window.held == 0)
        assert store.where(0, A, number)[0] == "discarded"
        await until(lambda: not index.rows)


async def test_what_is_due_later_is_in_the_index_and_loaded_in_time(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index, window_s=2.0) as loop:
        numbers = [store.stage(0, A, 10 + n) for n in range(20)]
        await until(lambda: len(index.rows) == 20)
        assert loop.window.held == 0
        store.ahead_us += 28 * SECOND
        await until(lambda: released(store, *numbers[:18]))
        assert store.where(0, A, numbers[-1]) == ("staged", None)
        await until(lambda: set(index.rows) <= {(KEY_A, n) for n in numbers[18:]})


async def test_a_message_released_at_once_is_never_written(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index, write_every_s=0.2):
        for _ in range(5):
            store.stage(0, A, *[0.0] * 20)
        await until(lambda: store.end(0, A) == 100)
        await until(lambda: index.kept.get(KEY_A) == Progress(100, 0))
    assert index.written == 0


async def test_the_next_scheduler_goes_on_from_the_index(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index, window_s=1.0):
        first = [store.stage(0, A, 20 + n) for n in range(50)]
        await until(lambda: len(index.rows) == 50)
    unseen = [store.stage(0, A, 20) for _ in range(5)]
    store.reschedule(0, A, first[7], 10)
    listed = store.calls["staged"]
    async with leading(store, index, window_s=1.0):
        await until(lambda: len(index.rows) == 55)
        assert store.calls["staged"] <= listed + 4
        store.ahead_us += 15 * SECOND
        await until(lambda: released(store, first[7]))
        store.ahead_us += 60 * SECOND
        await until(lambda: released(store, *first, *unseen))
        assert store.end(0, A) == 55


async def test_a_killed_scheduler_that_had_written_nothing_loses_nothing(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index, write_every_s=60.0) as loop:
        numbers = [store.stage(0, A, 0.3 + n / 1000) for n in range(50)]
        await until(lambda: loop.window.held == 50)
    assert index.rows == {}
    async with leading(store, index):
        await until(lambda: released(store, *numbers))
    assert store.end(0, A) == 50


async def test_two_schedulers_at_once_release_each_message_once(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index), leading(store, FakeIndex()):
        store.stage(0, A, *[0.02 + n / 2000 for n in range(200)])
        await until(lambda: released(store, *range(200)))
        await asyncio.sleep(0.05)
    assert store.end(0, A) == 200


async def test_a_lost_answer_is_asked_for_again(store: FakeStore, index: FakeIndex) -> None:
    store.lost_answers = 3
    async with leading(store, index) as loop:
        store.stage(0, A, *[0.01] * 10)
        await until(lambda: loop.window.held == 0 and store.end(0, A) == 10)
    assert store.end(0, A) == 10


async def test_a_group_without_a_leader_delays_its_own_messages_only(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        there, away = store.stage(1, B, 0.05), store.stage(0, A, 0.05)
        store.down = {0}
        await until(lambda: released(store, there, queue=B, group=1))
        assert store.where(0, A, away) == ("staged", None)
        store.down = set()
        await until(lambda: released(store, away))


async def test_a_leader_that_has_not_applied_all_hides_nothing_for_good(
    store: FakeStore, index: FakeIndex
) -> None:
    """The listing is empty though the watch counts a message.

    The group is listed once more later, and the index never claims to be past the message.
    """
    async with leading(store, index):
        store.behind = 1
        number = store.stage(0, A, 0.0)
        await until(lambda: store.behind == 0)
        assert index.kept.get(KEY_A, Progress()).projected_to == 0
        await until(lambda: released(store, number))


async def test_after_too_many_changes_all_is_listed_again(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index):
        numbers = [store.stage(0, A, 50) for _ in range(3)]
        await until(lambda: len(index.rows) == 3)
        store.deaf = True
        for n in range(5000):  # more than a node remembers
            store.reschedule(0, A, numbers[n % 2], 50 + n % 7)
        store.reschedule(0, A, numbers[2], 0.0)
        store.deaf = False
        store.tell(0, A)
        await until(lambda: released(store, numbers[2]))
        await until(lambda: index.kept[KEY_A] == Progress(3, 5001))


async def test_a_clock_that_runs_ahead_of_the_log_only_asks_again(
    store: FakeStore, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store.do

    def slow(group: int, raw: bytes) -> Any:
        """The log is 100 ms behind what this process takes for its time."""
        store.ahead_us -= 100_000
        try:
            return real(group, raw)
        finally:
            store.ahead_us += 100_000

    async with leading(store, index):
        monkeypatch.setattr(store, "do", slow)
        number = store.stage_at(0, A, (store.clock(0).now_us(),))
        await until(lambda: released(store, number))
    assert store.calls["release"] > 1


async def test_a_time_that_moved_unseen_is_found_when_the_log_says_not_yet(
    store: FakeStore, index: FakeIndex
) -> None:
    async with leading(store, index) as loop:
        number = store.stage(0, A, 1.0)
        await until(lambda: loop.window.held == 1)
        store.deaf = True
        store.reschedule(0, A, number, 4.0)
        store.ahead_us += int(2.5 * SECOND)
        store.stage(1, B, 0.0)
        store.deaf = False
        await until(lambda: store.calls["release"] > 0)
        assert store.where(0, A, number) == ("staged", None)
        store.ahead_us += 3 * SECOND
        await until(lambda: released(store, number))


async def test_memory_is_bounded_and_the_soonest_come_first(
    store: FakeStore, index: FakeIndex
) -> None:
    rng = random.Random(7)
    async with leading(store, index, max_pending=50, window_s=100.0) as loop:
        times = [rng.uniform(5, 50) for _ in range(600)]
        for at in range(0, 600, 100):
            store.stage(0, A, *times[at : at + 100])
            await asyncio.sleep(0.02)
        await until(lambda: len(index.rows) == 600)
        assert loop.window.held <= 100
        released_so_far = 0
        for passed in range(1, 12):
            store.ahead_us += 5 * SECOND
            due = sum(t < 5 * passed - 0.5 for t in times)
            await until(lambda due=due: store.end(0, A) >= due)  # type: ignore[misc]
            assert loop.window.held <= 200
            released_so_far = store.end(0, A)
        assert released_so_far == 600
        await until(lambda: not index.rows)


async def test_with_postgres_away_messages_wait_in_the_store(
    store: FakeStore, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "MAX_UNWRITTEN", 1000)
    async with leading(store, index, window_s=1.0) as loop:
        index.trouble.extend(MetadataUnavailable("down") for _ in range(10_000))
        for _ in range(60):
            store.stage(0, A, *[3600.0] * 100)
        soon = store.stage(1, B, 0.01)
        await until(lambda: released(store, soon, queue=B, group=1))
        await asyncio.sleep(0.1)
        # At most one listing more for each queue that had begun one.
        assert len(loop.window.projection) <= 3000
        assert index.rows == {}
        index.trouble.clear()
        await until(lambda: len(index.rows) == 6000)


async def test_a_new_holder_of_the_lock_ends_the_term(store: FakeStore, index: FakeIndex) -> None:
    async with leading(store, index) as loop:
        index.fence += 1
        loop._lock = lambda: index.lock().__class__(  # type: ignore[method-assign]
            bytes(16), "scheduler", bytes(16), 1, float("inf")
        )
        store.stage(0, A, 30)
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(loop._term.wait(), 5)
    assert index.rows == {}


async def test_a_topic_that_comes_is_followed_and_one_that_goes_is_forgotten(
    store: FakeStore, index: FakeIndex
) -> None:
    only_a = {A.pack(): QUEUES[A.pack()]}
    async with leading(store, index, only_a) as loop:
        store.stage(1, B, 0.0)
        store.stage(0, A, 30.0)
        await until(lambda: loop.window.held == 1)
        loop.owned(QUEUES)
        await until(lambda: released(store, 0, queue=B, group=1))
        loop.owned({B.pack(): QUEUES[B.pack()]})
        assert loop.window.held == 0
        await loop._forget_gone()
        assert all(key != KEY_A for key, _ in index.rows)


async def test_a_call_that_fails_once_is_made_again(store: FakeStore, index: FakeIndex) -> None:
    async with leading(store, index):
        store.trouble.extend(Unavailable("now and then") for _ in range(5))
        numbers = [store.stage(0, A, 0.01 * n) for n in range(5)]
        await until(lambda: released(store, *numbers))


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_fails_each_message_is_released_once_or_cancelled(
    store: FakeStore, index: FakeIndex, seed: int
) -> None:
    """Kills, lost answers, leaders behind, Postgres away, reschedules and cancels, at random; then
    all of it heals."""
    rng = random.Random(seed)
    queues = {(0, A): [], (1, B): []}  # type: dict[tuple[int, QueueId], list[int]]
    for _ in range(6):
        settings = {"window_s": rng.choice([0.05, 1.0]), "max_pending": 40}
        async with suppressed(MetadataUnavailable), leading(store, index, **settings):
            for _ in range(rng.randrange(25)):
                (group, queue), numbers = rng.choice(list(queues.items()))
                match rng.randrange(8):
                    case 0:
                        store.lost_answers += 1
                    case 1:
                        store.behind += 1
                    case 2:
                        index.trouble.append(MetadataUnavailable("away"))
                    case 3 if numbers:
                        store.reschedule(group, queue, rng.choice(numbers), rng.uniform(0, 0.2))
                    case 4 if numbers:
                        store.cancel(group, queue, rng.choice(numbers))
                    case 5:
                        store.trouble.append(Unavailable("now and then"))
                    case _:
                        due = [
                            rng.choice([0.0, 0.01, 0.1, 0.3]) for _ in range(rng.randrange(1, 9))
                        ]
                        base = store.stage(group, queue, *due)
                        numbers.extend(range(base, base + len(due)))
                await asyncio.sleep(rng.choice([0, 0, 0.005]))
    store.trouble.clear()
    index.trouble.clear()
    store.lost_answers = store.behind = 0
    async with leading(store, index, window_s=0.2) as loop:
        for (group, queue), numbers in queues.items():
            await until(
                lambda group=group, queue=queue, numbers=numbers: all(  # type: ignore[misc]
                    store.where(group, queue, n)[0] != "staged" for n in numbers
                ),
                f"the release of everything (seed {seed})",
            )
            offsets = [store.where(group, queue, n)[1] for n in numbers]
            taken = [offset for offset in offsets if offset is not None]
            assert sorted(taken) == list(range(store.end(group, queue)))
        await until(lambda: loop.window.held == 0 and not index.rows)
