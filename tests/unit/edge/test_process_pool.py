from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from edge import process_pool as module
from edge.problem import Problem
from edge.process_pool import CallFailed, ProcessPool, TookTooLong
from edge.worker import NICENESS
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.edge.chores import (
    burn,
    deep_in_a_library,
    doubled,
    endless,
    failing,
    greedy,
    pid,
    surroundings,
)

ACME, OTHER = b"a" * 16, b"o" * 16


@pytest.fixture
async def process_pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProcessPool]:
    monkeypatch.setattr(module, "LIMIT_S", 0.3)
    made = ProcessPool()
    yield made
    await made.close()


async def test_a_call_is_answered_by_another_process(process_pool: ProcessPool) -> None:
    assert await process_pool.run(ACME, doubled, 21) == 42
    first, second = await process_pool.run(ACME, pid), await process_pool.run(OTHER, pid)
    assert first == second != os.getpid()


async def test_requests_have_the_processor_before_the_work_of_a_tenant(
    process_pool: ProcessPool,
) -> None:
    niceness = os.getpriority(os.PRIO_PROCESS, await process_pool.run(ACME, pid))
    assert niceness == os.getpriority(os.PRIO_PROCESS, 0) + NICENESS


async def test_what_a_function_raises_is_named(process_pool: ProcessPool) -> None:
    with pytest.raises(CallFailed, match="failing: KeyError"):
        await process_pool.run(ACME, failing)
    assert await process_pool.run(ACME, doubled, 1) == 2


@pytest.mark.parametrize("work", [endless, deep_in_a_library, greedy])
async def test_a_call_that_takes_too_much_is_ended_and_the_loop_goes_on(
    process_pool: ProcessPool, work: object
) -> None:
    async with measured() as callbacks:
        with pytest.raises(TookTooLong):
            await process_pool.run(ACME, work)  # type: ignore[arg-type]
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    assert await process_pool.run(ACME, doubled, 1) == 2


async def test_a_worker_knows_nothing_of_its_parents_environment(
    process_pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACKETBOAT_SEAL_KEYS", "secret")
    known = await process_pool.run(ACME, surroundings)
    assert "PYTHONPATH" in known
    assert not [name for name in known if name.startswith("PACKETBOAT")]


async def test_a_tenant_has_one_worker_at_a_time(process_pool: ProcessPool) -> None:
    long = [asyncio.create_task(process_pool.run(ACME, burn, 0.2)) for _ in range(4)]
    await asyncio.sleep(0)
    assert await process_pool.run(OTHER, doubled, 1) == 2
    assert not long[-1].done()
    await asyncio.gather(*long)


async def test_a_tenants_calls_wait_in_a_bounded_line(process_pool: ProcessPool) -> None:
    waiting = [asyncio.create_task(process_pool.run(ACME, burn, 0.01)) for _ in range(17)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await process_pool.run(ACME, doubled, 1)
    assert (refused.value.status, refused.value.slug) == (429, "work-limited")
    assert await process_pool.run(OTHER, doubled, 1) == 2
    await asyncio.gather(*waiting)


async def test_what_a_tenant_used_is_counted_also_of_what_failed_and_of_who_went_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 0.2)
    monkeypatch.setattr(module, "CPU_BURST_S", 0.3)
    now_s = 0.0
    process_pool = ProcessPool(clock=lambda: now_s)
    with pytest.raises(TookTooLong):
        await process_pool.run(ACME, endless)
    gone = asyncio.create_task(process_pool.run(ACME, endless))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, *process_pool._tasks, return_exceptions=True)
    with pytest.raises(Problem) as refused:
        await process_pool.run(ACME, doubled, 1)
    assert refused.value.slug == "work-limited"
    assert refused.value.retry_after_s == pytest.approx(1.0 + 0.1 / module.CPU_PART)
    assert await process_pool.run(OTHER, doubled, 1) == 2
    now_s = 0.5
    assert await process_pool.run(ACME, doubled, 1) == 2
    await process_pool.close()


async def test_idle_workers_end(process_pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.0)
    number = await process_pool.run(ACME, pid)
    for _ in range(200):
        await asyncio.sleep(0.01)
        if not process_pool._idle and not process_pool._tasks:
            break
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
