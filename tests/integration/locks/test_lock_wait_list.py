"""Waiting for locks, in several processes, on a real Postgres."""

from __future__ import annotations

import asyncio
import itertools
from datetime import datetime

import asyncpg
import pytest

from edge.shares import TooManyWaiting
from gateway.locks import wait_list
from metadata.database import Database
from metadata.errors import NotFound
from metadata.locks.catalog import LockCatalog
from metadata.locks.locks import Claim, Held, Lock, TooManyLocks
from metadata.locks.waiters import LockWaiterRepository
from tests.integration.locks.conftest import OpenProcess
from tests.integration.locks.lock_support import (
    NAME,
    TENANT,
    Process,
    ask,
    holder,
    places,
    until_places,
)


async def test_fifty_contenders_hold_it_one_after_the_other(
    open_process: OpenProcess, database: Database
) -> None:
    processes = [await open_process() for _ in range(3)]
    held: list[tuple[datetime, datetime, int]] = []

    async def contend(number: int) -> None:
        process = processes[number % 3]
        lock = await process.taken(f"c{number}", wait_s=60)
        began = await ask(database, "SELECT clock_timestamp()")
        assert await holder(database) == f"c{number}"
        await asyncio.sleep(0.001 * (number % 5))
        held.append((began, await ask(database, "SELECT clock_timestamp()"), lock.fence))
        await process.locks.release(lock)

    await asyncio.gather(*(contend(number) for number in range(50)))
    held.sort()
    assert all(left[1] < right[0] for left, right in itertools.pairwise(held))
    fences = [fence for *_, fence in held]
    assert fences == sorted(set(fences))
    assert len(fences) == 50
    await until_places(database, 0)


async def in_line(processes: list[Process], database: Database, count: int) -> list[str]:
    """Return the holders in the order in which they get it, after they came one after the other."""
    first = await processes[0].taken("first")
    order: list[str] = []

    async def contend(number: int) -> None:
        process = processes[number % len(processes)]
        lock = await process.taken(f"c{number}", wait_s=60)
        order.append(f"c{number}")
        await process.locks.release(lock)

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(contend(number))
            await until_places(database, number + 1)
        await processes[0].locks.release(first)
    return order


async def test_first_come_first_served_over_all_processes(
    open_process: OpenProcess, database: Database
) -> None:
    processes = [await open_process() for _ in range(3)]
    assert await in_line(processes, database, 12) == [f"c{number}" for number in range(12)]


async def test_who_does_not_wait_comes_after_those_who_do(
    open_process: OpenProcess, database: Database
) -> None:
    near, far = await open_process(), await open_process()
    first = await near.taken("first")
    await far.stop()  # it will not hear of the release
    waiting = asyncio.create_task(far.taken("patient"))
    await until_places(database, 1)
    await near.locks.release(first)
    got = await near.acquire("hasty", wait_s=0)
    assert isinstance(got, Held)
    assert got.holder is None
    assert (await waiting).holder == "patient"


async def test_the_wait_ends_and_says_who_has_it(
    open_process: OpenProcess, database: Database
) -> None:
    process = await open_process()
    await process.taken("first")
    got = await process.acquire("second", wait_s=0.2)
    assert isinstance(got, Held)
    assert got.holder == "first"
    assert 0 < got.free_in_s <= 60
    await until_places(database, 0)


async def test_a_lease_that_ends_lets_the_next_in_without_a_release(
    open_process: OpenProcess,
) -> None:
    process = await open_process()
    first = await process.taken("first", ttl_s=1.0)
    second = await process.taken("second")
    assert second.fence == first.fence + 1


async def test_waiting_long_costs_few_statements(
    open_process: OpenProcess, database: Database
) -> None:
    near, far = await open_process(), await open_process()
    first = await near.taken("first")
    waiting = [asyncio.create_task(far.taken(f"c{n}")) for n in range(20)]
    await until_places(database, 20)
    await asyncio.sleep(2.5)
    # Each asked when it came, and the first of the line once more.
    assert far.locks.tries <= 22
    await near.locks.release(first)
    for _ in waiting:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        assert done
        waiting = [task for task in waiting if task not in done]
        for task in done:
            await far.locks.release(task.result())


async def test_who_goes_away_while_it_waits_is_passed_over(
    open_process: OpenProcess, database: Database
) -> None:
    near, far = await open_process(), await open_process()
    first = await near.taken("first")
    leaving = asyncio.create_task(far.taken("leaving"))
    await until_places(database, 1)
    staying = asyncio.create_task(near.taken("staying"))
    await until_places(database, 2)
    leaving.cancel()
    await until_places(database, 1)
    await near.locks.release(first)
    assert (await staying).holder == "staying"


async def test_what_is_taken_while_its_caller_goes_away_is_given_back(
    open_process: OpenProcess, database: Database
) -> None:
    process = await open_process()
    fences = set()
    for steps in range(40):
        task = asyncio.create_task(process.acquire("gone", wait_s=0))
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        if not task.cancel():
            lock = task.result()
            assert isinstance(lock, Lock)
            await process.locks.release(lock)
        await asyncio.gather(task, return_exceptions=True)
        await process.line.waits.close()
        assert await holder(database) is None
        fences.add(await ask(database, "SELECT max(fence) FROM locks"))
    assert len(fences) > 5  # some were taken, and given back


async def test_a_holding_got_again_is_not_given_back_for_its_first_caller(
    open_process: OpenProcess, database: Database
) -> None:
    """The first went away; the second, with the same request id, is there."""
    process = await open_process()
    first = await process.taken("ann", request_id="r1")
    second = await process.taken("ann", request_id="r1")
    assert (second.owner, second.fence) == (first.owner, first.fence)
    process.line.undo(first)
    await process.line.waits.close()
    assert await holder(database) == "ann"
    process.line.undo(second)
    await process.line.waits.close()
    assert await holder(database) is None


async def test_a_dead_process_holds_up_the_line_for_seconds_only(
    open_process: OpenProcess, database: Database
) -> None:
    process = await open_process()
    first = await process.taken("first")
    await LockWaiterRepository(database).join(TENANT, NAME)  # nobody will keep this place
    waiting = asyncio.create_task(process.taken("second"))
    await until_places(database, 2)
    await process.locks.release(first)
    assert (await waiting).holder == "second"


async def test_a_place_that_was_lost_is_taken_anew_where_it_was(
    open_process: OpenProcess, database: Database
) -> None:
    process = await open_process()
    first = await process.taken("first")
    waiting = [asyncio.create_task(process.taken(f"c{number}")) for number in range(2)]
    await until_places(database, 2)
    tickets = "SELECT array_agg(ticket ORDER BY ticket) FROM lock_waiters"
    before = await ask(database, tickets)
    await ask(database, "DELETE FROM lock_waiters")
    await until_places(database, 2)
    assert await ask(database, tickets) == before
    await process.locks.release(first)
    for task in waiting:
        await process.locks.release(await task)


async def test_a_ring_that_was_missed_costs_no_more_than_a_moment(
    open_process: OpenProcess, database: Database, database_url: str
) -> None:
    near, far = await open_process(), await open_process()
    first = await near.taken("first")
    waiting = asyncio.create_task(far.taken("second"))
    await until_places(database, 1)
    ears = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'packetboat-locks'"
    async with asyncio.timeout(10):
        while not await ask(database, ears):
            await asyncio.sleep(0.01)
    login = await asyncpg.connect(database_url)  # the platform's role may not do that
    await login.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'packetboat-locks'"
    )
    await login.close()
    await near.locks.release(first)
    assert (await waiting).holder == "second"


async def test_draining_answers_those_who_wait(open_process: OpenProcess) -> None:
    near, far = await open_process(), await open_process()
    await near.taken("first")
    waiting = [asyncio.create_task(far.acquire("second")) for _ in range(3)]
    await until_places(near.database, 3)
    far.line.waits.drain()
    assert [type(got) for got in await asyncio.gather(*waiting)] == [Held] * 3
    assert isinstance(await far.acquire("third"), Held)


async def test_a_deleted_lock_goes_to_who_waits_with_a_higher_fence(
    open_process: OpenProcess, database: Database
) -> None:
    process = await open_process()
    first = await process.taken("first")
    waiting = asyncio.create_task(process.taken("second"))
    await until_places(database, 1)
    await LockCatalog(database).delete(TENANT, NAME)
    assert (await waiting).fence > first.fence


async def test_line_and_locks_are_bounded(
    open_process: OpenProcess, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await open_process()
    await process.taken("first")
    monkeypatch.setattr(wait_list, "MAX_WAITING", 1)
    waiting = asyncio.create_task(process.acquire("second"))
    await until_places(database, 1)
    with pytest.raises(TooManyWaiting):
        await process.acquire("third")
    process.line.waits.drain()
    await waiting
    monkeypatch.setattr("metadata.locks.locks.MAX_LOCKS", 1)
    with pytest.raises(TooManyLocks):
        await process.locks.take("another", bytes(16), tenant_id=TENANT)


async def test_a_tenant_whose_calls_wait_leaves_places_to_others(
    open_process: OpenProcess, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_list, "MAX_WAITING_IN_ALL", 4)
    process = await open_process()
    await process.taken("first")
    other_tenant = bytes(15) + b"\x09"
    await process.locks.take(NAME, bytes(16), tenant_id=other_tenant)
    held = [asyncio.create_task(process.acquire(f"h{n}")) for n in range(4)]
    async with asyncio.timeout(10):
        while sum(one.done() for one in held) + await places(database) < 4:
            await asyncio.sleep(0.01)
    before = await places(database)
    claim = Claim(other_tenant, NAME, b"y" * 16, 60.0, "other", "id")
    other = asyncio.create_task(process.line.acquire(claim, 20.0, repeatable=True))
    async with asyncio.timeout(10):
        while not other.done() and await places(database) == before:
            await asyncio.sleep(0.01)
    assert not other.done(), "it waits as well"
    process.line.waits.drain()
    assert isinstance(await other, Held)
    answers = await asyncio.gather(*held, return_exceptions=True)
    assert [type(each) for each in answers].count(TooManyWaiting) == 2, "beyond half of all places"


async def test_deletes_and_acquires_of_one_name_never_wait_for_each_other(
    open_process: OpenProcess, database: Database
) -> None:
    """And no fence comes twice."""
    process, fences = await open_process(), []
    catalog = LockCatalog(database)

    async def acquire() -> None:
        for _ in range(30):
            got = await process.acquire(wait_s=0)
            if isinstance(got, Lock):
                fences.append(got.fence)

    async def delete() -> None:
        for _ in range(30):
            try:
                await catalog.delete(TENANT, NAME)
            except NotFound:
                await asyncio.sleep(0.001)

    await asyncio.gather(acquire(), acquire(), delete(), delete())
    assert len(fences) == len(set(fences))
    assert len(fences) > 2
    assert await places(database) == 0
