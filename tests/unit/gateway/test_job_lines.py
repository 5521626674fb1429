"""Claims that wait and transitions that go together, over a job store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from edge.shares import TooManyWaiting
from gateway.jobs import end_watch, transition_batches, waits
from gateway.jobs.end_watch import EndWatch
from gateway.jobs.transition_batches import MAX_ITEMS, TransitionBatches
from gateway.jobs.waits import TaskClaims, Tasks
from metadata.errors import MetadataUnavailable, StatementRefused
from metadata.jobs.claims import Wanted
from metadata.jobs.machine import Complete, Release, Verdict
from metadata.jobs.transaction import Allowed, TaskTransition, everywhere
from metadata.jobs.types import Lease, LeasedTask

TENANT = bytes(16)
OTHER = b"another tenant!!"
THIRD, FOURTH = b"a third tenant !", b"a fourth tenant!"


def lease(number: int) -> Lease:
    return Lease(0, bytes(16), number, bytes(16))


class Store:
    """The part of `JobLeaseRepository` that the lines use."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.claims = 0
        self.transactions: list[int] = []
        self.released: list[int] = []
        self.broken = False
        self.poison = -1
        self.gate = asyncio.Event()
        self.gate.set()

    async def claim(self, tenant_id: bytes, wanted: Wanted) -> list[LeasedTask]:
        self.claims += 1
        await self.gate.wait()
        if self.broken:
            raise MetadataUnavailable("away")
        got, self.waiting = self.waiting[: wanted.max_tasks], self.waiting[wanted.max_tasks :]
        now = datetime.now(UTC)
        return [LeasedTask(lease(at), "j", "k", b"1", 1, now, {}, None) for at in got]

    async def claimable(self, asked: Sequence[Any]) -> set[int]:
        return set(range(len(asked))) if self.waiting else set()

    async def apply(
        self,
        tenant_id: bytes,
        items: Sequence[TaskTransition],
        allowed: Allowed = everywhere,
    ) -> list[Verdict]:
        self.transactions.append(len(items))
        await self.gate.wait()
        if self.broken:
            raise MetadataUnavailable("away")
        if any(item.lease.number == self.poison for item in items):
            raise StatementRefused("a fault of ours")
        if isinstance(items[0].what, Release):
            self.released += [item.lease.number for item in items]
            self.waiting += [item.lease.number for item in items]
        return [
            Verdict.DONE if await allowed(at, "p") else Verdict.LOST for at, _ in enumerate(items)
        ]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def line(store: Any) -> TaskClaims:
    return TaskClaims(store)


def wanted(most: int = 1, kinds: tuple[str, ...] = ("k",)) -> Wanted:
    return Wanted("p", kinds, most, 30.0)


async def claim(
    line: TaskClaims, tenant_id: bytes, wanted: Wanted, wait_s: float
) -> list[LeasedTask]:
    key = Tasks(tenant_id, wanted.pool, tuple(wanted.kinds))
    return await line.claim(key, tenant_id, wanted, wait_s) or []


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def numbers(tasks: list[LeasedTask]) -> list[int]:
    return [task.lease.number for task in tasks]


async def test_who_waits_gets_what_comes_in_the_order_of_coming(
    line: TaskClaims, store: Store
) -> None:
    waiting = [asyncio.create_task(claim(line, TENANT, wanted(), 60.0)) for _ in range(3)]
    await turns()
    tried = store.claims
    store.waiting = [1, 2]
    line.tasks_wait(TENANT, "p")
    await turns()
    assert [task.done() for task in waiting] == [True, True, False]
    assert [numbers(task.result()) for task in waiting[:2]] == [[1], [2]]
    assert store.claims == tried + 3, "one try in vain, however many wait"
    line.waits.drain()
    assert await waiting[2] == []
    await line.waits.close()


async def test_a_ring_for_another_pool_costs_nothing(line: TaskClaims, store: Store) -> None:
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 60.0))
    await turns()
    tried = store.claims
    line.tasks_wait(TENANT, "other")
    line.tasks_wait(bytes(15) + b"\x01", "p")
    await turns()
    assert store.claims == tried
    line.waits.drain()
    assert await waiting == []


async def test_a_ring_while_it_tries_is_heard(line: TaskClaims, store: Store) -> None:
    store.gate.clear()
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 60.0))
    await turns()
    line.tasks_wait(TENANT, "p")  # its first try has begun, and may not see what this rings for
    store.gate.set()
    await turns()
    assert store.claims == 2
    line.waits.drain()
    assert await waiting == []


async def test_a_ring_while_the_first_of_the_list_tries_is_heard(
    line: TaskClaims, store: Store
) -> None:
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 60.0))
    await turns()
    store.gate.clear()
    for _ in range(3):  # the first ring begins a try, which may not see what the others ring for
        line.tasks_wait(TENANT, "p")
        await turns()
    store.gate.set()
    await turns()
    assert store.claims == 3
    line.waits.drain()
    assert await waiting == []


async def test_the_next_one_tries_after_one_that_goes_away_while_it_tries(
    line: TaskClaims, store: Store
) -> None:
    """The notification was for both of them."""
    first, second = (asyncio.create_task(claim(line, TENANT, wanted(), 60.0)) for _ in range(2))
    await turns()
    store.gate.clear()
    line.tasks_wait(TENANT, "p")
    await turns()
    tried = store.claims
    first.cancel()
    await turns()
    store.waiting = [8, 9]
    store.gate.set()
    await turns()
    assert store.claims == tried + 1
    assert len(await second) == 1
    await line.waits.close()


async def test_a_lost_ring_is_made_up_for_by_a_look(line: TaskClaims, store: Store) -> None:
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 60.0))
    await turns()
    await line.look()
    store.waiting = [7]
    await line.look()
    assert numbers(await waiting) == [7]


async def test_who_goes_away_while_it_tries_gives_back_what_it_got(
    line: TaskClaims, store: Store
) -> None:
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 60.0))
    await turns()
    store.gate.clear()
    store.waiting = [3]
    line.tasks_wait(TENANT, "p")
    await turns()
    waiting.cancel()
    await turns()
    store.gate.set()
    await line.waits.close()
    assert store.released == [3]


async def test_who_goes_away_at_its_first_try_does_too(line: TaskClaims, store: Store) -> None:
    store.gate.clear()
    store.waiting = [4]
    claiming = asyncio.create_task(claim(line, TENANT, wanted(), 0.0))
    await turns()
    claiming.cancel()
    await turns()
    store.gate.set()
    await line.waits.close()
    assert store.released == [4]


async def test_a_wait_that_ends_during_a_try_takes_what_it_gives(
    line: TaskClaims, store: Store
) -> None:
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 0.05))
    await turns()
    store.gate.clear()
    store.waiting = [5]
    line.tasks_wait(TENANT, "p")
    await asyncio.sleep(0.2)
    assert not waiting.done()
    store.gate.set()
    assert numbers(await waiting) == [5]


async def test_a_failure_while_it_waits_is_waited_over(line: TaskClaims, store: Store) -> None:
    waiting = asyncio.create_task(claim(line, TENANT, wanted(), 60.0))
    await turns()
    store.broken, store.waiting = True, [6]
    line.tasks_wait(TENANT, "p")
    await turns()
    assert not waiting.done()
    store.broken = False
    await line.look()
    assert numbers(await waiting) == [6]


async def test_a_failure_at_once_is_told(line: TaskClaims, store: Store) -> None:
    store.broken = True
    with pytest.raises(MetadataUnavailable):
        await claim(line, TENANT, wanted(), 60.0)


async def test_who_waits_is_bounded(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "MAX_WAITING", 1)
    line = TaskClaims(store)
    waiting, beyond = (asyncio.create_task(claim(line, TENANT, wanted(), 60.0)) for _ in range(2))
    await turns()
    assert beyond.done(), "it is refused"
    assert isinstance(beyond.exception(), TooManyWaiting)
    line.waits.drain()
    assert await waiting == []


async def test_a_tenant_whose_claims_wait_leaves_places_to_others(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "MAX_WAITING", 8)
    line = TaskClaims(store)
    held = []
    for _ in range(8):
        held.append(asyncio.create_task(claim(line, TENANT, wanted(), 60.0)))
        await turns()  # each has tried before the next one comes
    assert [task.done() for task in held] == 4 * [False] + 4 * [True], "it has half of them"
    other = asyncio.create_task(claim(line, OTHER, wanted(), 60.0))
    await turns()
    assert not other.done(), "it waits as well"
    line.waits.drain()
    assert await other == []
    await asyncio.gather(*held, return_exceptions=True)


async def test_tries_of_a_tenant_do_not_hold_up_those_of_another(store: Any) -> None:
    """Tries may wait for a lock in Postgres, as those of a pool with a limit do."""
    line = TaskClaims(store)
    store.gate.clear()
    held = [
        asyncio.create_task(claim(line, TENANT, wanted(kinds=(f"k{n}",)), 0.0)) for n in range(20)
    ]
    await turns()
    before = store.claims
    other = asyncio.create_task(claim(line, OTHER, wanted(), 0.0))
    await turns()
    assert store.claims == before + 1, "it is tried beside them"
    store.gate.set()
    assert await other == []
    await asyncio.gather(*held)


async def test_tries_that_wait_are_bounded_and_a_tenant_leaves_places_to_others(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "MAX_WAITING", 4)
    line = TaskClaims(store)
    store.gate.clear()

    def tries(tenant_id: bytes, count: int) -> list[asyncio.Task[list[LeasedTask]]]:
        asked = (wanted(kinds=(f"k{number}",)) for number in range(count))
        return [asyncio.create_task(claim(line, tenant_id, each, 0.0)) for each in asked]

    ones = tries(TENANT, 6)
    await turns()
    refused = [type(task.exception()) for task in ones if task.done()]
    assert refused == [TooManyWaiting] * 2, "two are tried, and half of the four wait"
    others = [*tries(OTHER, 2), *tries(THIRD, 2)]
    await turns()
    assert not any(task.done() for task in others), "of each, one is tried and one waits"
    (beyond,) = tries(FOURTH, 1)
    await turns()
    assert isinstance(beyond.exception(), TooManyWaiting), "four wait, in all"
    store.gate.set()
    await asyncio.gather(*others, *ones, return_exceptions=True)
    assert store.claims == 8


async def test_who_waits_for_the_end_of_a_job_leaves_places_to_other_tenants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(end_watch, "MAX_WAITING", 4)
    watch = EndWatch(Unended(), Unended())  # type: ignore[arg-type]
    held = [asyncio.create_task(watch.get(TENANT, "j", 60.0)) for _ in range(4)]
    await turns()
    other = asyncio.create_task(watch.get(OTHER, "j", 60.0))
    await turns()
    assert not other.done(), "it waits as well"
    assert [task.done() for task in held] == [False, False, True, True], "it has half of them"
    more = [asyncio.create_task(watch.get(each, "j", 60.0)) for each in (THIRD, FOURTH)]
    await turns()
    assert [task.done() for task in more] == [False, True], "four wait, in all"
    watch.drain()
    await asyncio.gather(other, *held, *more)


class Unended:
    """A job that goes on."""

    finished = False
    uid = bytes(16)

    async def get(self, tenant_id: bytes, name: str) -> Unended:
        return self


# Transitions.


def items(*numbers: int) -> list[TaskTransition]:
    return [TaskTransition(lease(number), Complete()) for number in numbers]


async def nowhere(at: int, pool: str) -> bool:
    return False


async def test_what_comes_during_a_transaction_goes_with_the_next(store: Any) -> None:
    line = TransitionBatches(store)
    store.gate.clear()
    calls = [asyncio.create_task(line.apply(TENANT, items(0), everywhere))]
    await turns()
    calls += [asyncio.create_task(line.apply(TENANT, items(1, 2), everywhere)) for _ in range(3)]
    await turns()
    store.gate.set()
    assert [await call for call in calls] == [[Verdict.DONE]] + [[Verdict.DONE] * 2] * 3
    assert store.transactions == [1, 6]
    await line.close()


async def test_each_call_s_pools_are_its_own(store: Any) -> None:
    line = TransitionBatches(store)
    refused, done = await asyncio.gather(
        line.apply(TENANT, items(0), nowhere), line.apply(TENANT, items(1), everywhere)
    )
    assert (refused, done) == ([Verdict.LOST], [Verdict.DONE])
    assert store.transactions == [2]


async def test_one_transaction_has_an_end(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    line = TransitionBatches(store)
    calls = [line.apply(TENANT, items(*range(100)), everywhere) for _ in range(6)]
    await asyncio.gather(*calls)
    assert store.transactions == [MAX_ITEMS, 100]
    store.transactions.clear()
    monkeypatch.setattr(transition_batches, "MAX_BYTES", 2 * len(b"null"))
    await asyncio.gather(*(line.apply(TENANT, items(at), everywhere) for at in range(5)))
    assert store.transactions == [2, 2, 1]


async def test_nobody_pays_for_what_another_sent(store: Any) -> None:
    line = TransitionBatches(store)
    store.poison = 13
    answers = await asyncio.gather(
        *(line.apply(TENANT, items(number), everywhere) for number in (12, 13, 14)),
        return_exceptions=True,
    )
    assert answers[0] == answers[2] == [Verdict.DONE]
    assert isinstance(answers[1], StatementRefused)


async def test_while_postgres_is_away_everybody_is_told(store: Any) -> None:
    line = TransitionBatches(store)
    store.broken = True
    answers = await asyncio.gather(
        *(line.apply(TENANT, items(number), everywhere) for number in range(2)),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [MetadataUnavailable] * 2
    store.broken = False
    assert await line.apply(TENANT, items(0), everywhere) == [Verdict.DONE]
