"""Many short pieces of work share a part of each pass of the event loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
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


async def test_cheap_pieces_before_long_ones_do_not_let_all_of_them_into_a_pass(
    clock: Clock,
) -> None:
    """The number of pieces that a pass calls is a guess from those before."""
    budget = PassBudget(SLICE_S)
    for _ in range(3):
        await pieces(budget, clock, 200, 0.0)
        begun, order = await asyncio.wait_for(pieces(budget, clock, 30, 2 * SLICE_S), 5.0)
        assert max(begun.values()) <= 2
        assert len(begun) <= 30
        late = max(place - number for place, number in enumerate(order))
        assert late <= 8, "the first come first, also where they were called in vain"


async def test_a_pass_calls_few_pieces_that_make_others_work(clock: Clock) -> None:
    """A stream ends in a moment, and makes its handler end, which takes longer."""
    budget, passes, ended = PassBudget(SLICE_S), Passes(), Counter[int]()
    told = [asyncio.Event() for _ in range(40)]

    async def handle(number: int) -> None:
        await told[number].wait()
        ended[passes.number] += 1
        clock.now_s += SLICE_S / 2

    async def end(number: int) -> None:
        told[number].set()
        clock.now_s += SLICE_S / 10

    handlers = [asyncio.create_task(budget.run(handle(number))) for number in range(len(told))]
    await asyncio.sleep(0)
    await asyncio.gather(*(budget.run(end(number)) for number in range(len(told))), *handlers)
    passes.end()
    assert ended.total() == len(told)
    by_pass = list(ended.values())
    assert max(by_pass) <= 10
    assert max(by_pass[2:]) <= 6, "the first passes tell what the next ones may take"


async def test_pieces_go_on_where_others_take_all_of_each_pass(clock: Clock) -> None:
    """Work that waits in its middle, and goes on, is counted and not held up."""
    budget, done = PassBudget(SLICE_S), asyncio.Event()

    async def busy() -> None:
        while not done.is_set():
            clock.now_s += SLICE_S
            await asyncio.sleep(0)

    others = [asyncio.create_task(budget.run(busy())) for _ in range(3)]
    await asyncio.sleep(0)
    begun, order = await asyncio.wait_for(pieces(budget, clock, 20, SLICE_S), 5.0)
    done.set()
    await asyncio.gather(*others)
    assert order == list(range(20))
    assert max(begun.values()) == 1


async def test_work_that_is_cancelled_before_its_turn_is_closed(clock: Clock) -> None:
    budget = PassBudget(SLICE_S)

    async def long() -> None:
        clock.now_s += SLICE_S

    work = long()
    waits = asyncio.create_task(budget.run(work))
    await budget.run(long())
    await asyncio.sleep(0)
    waits.cancel()
    with suppress(asyncio.CancelledError):
        await waits
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


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
