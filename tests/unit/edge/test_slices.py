"""Many short pieces of work share a part of each pass of the event loop."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from edge import slices
from edge.slices import PassBudget

SLICE_S = 0.002


class Passes:
    """Counts the passes of the event loop, from 1."""

    def __init__(self) -> None:
        self.number = 1
        self._next()

    def _next(self) -> None:
        self._handle = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self.number += 1
        self._next()

    def end(self) -> None:
        self._handle.cancel()


class Clock:
    """The processor time of the thread: work adds to it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def thread_time(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slices, "time", SimpleNamespace(thread_time=clock.thread_time))
    return clock


async def pieces(
    budget: PassBudget, clock: Clock, count: int, took_s: float, waits_s: float | None = None
) -> tuple[Counter[int], list[int]]:
    """Return the number of pieces of work in each pass, and their numbers as they began."""
    passes, begun = Passes(), Counter[int]()
    order = list[int]()

    async def work(number: int) -> None:
        begun[passes.number] += 1
        order.append(number)
        clock.now_s += took_s
        if waits_s is not None:
            await asyncio.sleep(0)
            clock.now_s += waits_s

    await asyncio.gather(*(budget.run(work(number)) for number in range(count)))
    passes.end()
    return begun, order


async def test_a_pass_has_as_many_pieces_as_its_part_allows(clock: Clock) -> None:
    budget = PassBudget(SLICE_S)
    for _ in range(3):
        begun, order = await pieces(budget, clock, 100, SLICE_S / 4)
        assert max(begun.values()) <= 5
        assert order == sorted(order)
    assert len(begun) <= 40, "passes go by with one piece, or none"


async def test_a_long_piece_has_a_pass_to_itself(clock: Clock) -> None:
    begun, _ = await pieces(PassBudget(SLICE_S), clock, 20, 10 * SLICE_S)
    assert set(begun.values()) == {1}


async def test_a_piece_that_waits_counts_before_it_waits(clock: Clock) -> None:
    begun, _ = await pieces(PassBudget(SLICE_S), clock, 20, SLICE_S, waits_s=0.0)
    assert max(begun.values()) == 1


async def test_nobody_waits_where_there_is_time(clock: Clock) -> None:
    begun, _ = await pieces(PassBudget(SLICE_S), clock, 5, SLICE_S / 100)
    assert len(begun) == 1


async def test_one_that_gives_up_takes_no_turn_of_others(clock: Clock) -> None:
    budget = PassBudget(SLICE_S)
    failed = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))

    async def long() -> None:
        clock.now_s += SLICE_S

    first, second, *others = [asyncio.create_task(budget.run(long())) for _ in range(4)]
    await asyncio.sleep(0)
    assert first.done()
    second.cancel()
    await asyncio.wait_for(asyncio.gather(*others), 5.0)
    assert second.cancelled()
    assert not failed


async def test_work_is_told_of_its_cancellation_and_of_failures() -> None:
    budget, seen = PassBudget(SLICE_S), list[str]()

    async def waits() -> None:
        with pytest.raises(ZeroDivisionError):
            await fails()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("tidied up")
            raise

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    running = asyncio.create_task(budget.run(waits()))
    for _ in itertools.repeat(None, 10):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["cancelled", "tidied up"]
    with pytest.raises(ZeroDivisionError):
        await budget.run(fails())


async def test_work_that_was_cancelled_leaves_nothing_to_the_collector_of_garbage() -> None:
    """A frame was in a reference cycle with the error that was thrown into it."""
    budget = PassBudget(SLICE_S)

    async def cancelled() -> None:
        work = asyncio.create_task(budget.run(asyncio.Event().wait()))
        await asyncio.sleep(0)
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work

    await cancelled()
    gc.collect()
    gc.disable()
    try:
        await cancelled()
        assert gc.collect() == 0
    finally:
        gc.enable()
