"""Long work on the event loop, in slices: between two of them everybody else has a turn."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any

SLICE_S = 0.005
SORTED_AT_ONCE = 2_000
_PASSES = 4
"""Passes of whose pieces the time of the next ones is guessed, the last ones more than others."""
_LEAST_S = 10e-6


class Slices:
    """Asked after each small step: `if slices.over: await slices.rest()`."""

    __slots__ = ("_until_s",)

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + SLICE_S

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self._until_s

    async def rest(self) -> None:
        await asyncio.sleep(0)
        self._until_s = time.perf_counter() + SLICE_S


class PassBudget:
    """A part of each pass of the event loop, which many short pieces of work share.

    One pass runs everything that is ready. Where a flood makes thousands of pieces ready at once,
    all others wait until the last is done. Pieces that run here wait for a later pass, the first
    come first, once those of this pass have taken `slice_s` together.
    """

    def __init__(self, slice_s: float) -> None:
        self._slice_s = self._left_s = slice_s
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """A heap, by the numbers in which they came."""
        self._numbers = itertools.count()
        self._counting = False
        self._begun = 0
        self._recent_begun, self._recent_s = 1.0, slice_s

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a piece of work once there is time for it. Where it waits and goes on, its time
        counts in that later pass, and it is not held up.
        """
        try:
            await self.turn()
        except BaseException:
            work.close()
            raise
        await _steps(work, self._spend)

    async def turn(self) -> None:
        """Return once there is time."""
        if self._left_s <= 0 or self._waiting:
            number = next(self._numbers)
            while True:
                turn = asyncio.get_running_loop().create_future()
                heapq.heappush(self._waiting, (number, turn))
                await turn
                # The first that is called runs right after `_next_pass`: each pass does one.
                if self._left_s > 0:
                    break
        self._begun += 1

    def _spend(self, seconds: float) -> None:
        self._left_s -= seconds
        self._count()

    def _count(self) -> None:
        """Count passes from now on, until one in which nobody waits or spends."""
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._recent_s += self._slice_s - self._left_s - self._recent_s / _PASSES
        self._recent_begun += self._begun - self._recent_begun / _PASSES
        self._left_s, self._begun, self._counting = self._slice_s, 0, False
        if self._waiting:
            self._count()
        # The guess includes work that pieces cause: a stream that ends makes its handler end.
        piece_s = max(self._recent_s / max(self._recent_begun, 1 / _PASSES), _LEAST_S)
        room = max(1, int(self._slice_s / piece_s))
        while self._waiting and room:
            _, turn = heapq.heappop(self._waiting)
            if not turn.done():  # the one that waited may be gone
                turn.set_result(None)
                room -= 1


@types.coroutine
def _steps(work: Awaitable[None], spend: Callable[[float], None]) -> Generator[Any, Any, None]:
    """Do the work, and tell `spend` the processor time of each of its steps."""
    steps = work.__await__()
    go_on: Callable[[], Any] = partial(next, steps)
    step = go_on
    while True:
        began_s = time.thread_time()
        try:
            waits_for = step()
        except StopIteration:
            return
        finally:
            spend(time.thread_time() - began_s)
            step = go_on  # This frame and an error that was thrown would keep each other.
        try:
            yield waits_for
        except BaseException as error:  # also a cancellation: it is for the work
            assert isinstance(steps, Generator)
            step = partial(steps.throw, error)


async def in_order(texts: Iterable[str]) -> AsyncIterator[str]:
    """Yield texts in ascending order; they are sorted in slices."""
    slices = Slices()
    runs, run = [], list[str]()
    for text in texts:
        run.append(text)
        if len(run) == SORTED_AT_ONCE:
            runs.append(sorted(run))
            run = []
        if slices.over:
            await slices.rest()
    runs.append(sorted(run))
    for text in heapq.merge(*runs):
        yield text
        if slices.over:
            await slices.rest()
