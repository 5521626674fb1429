"""Long work on the event loop, in slices: between two of them everybody else has a turn."""

from __future__ import annotations

import asyncio
import heapq
import time
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from functools import partial
from typing import Any

SLICE_S = 0.005
SORTED_AT_ONCE = 2_000
_PIECES = 8
"""Pieces of work of whose time the next one's is guessed."""
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
    all others wait until the last is done. Pieces that run here wait for a later pass, in the order
    in which they came, once those of this pass have taken `slice_s` together.
    """

    def __init__(self, slice_s: float) -> None:
        self._slice_s = self._left_s = self._piece_s = slice_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._counting = False

    async def run(self, work: Awaitable[None]) -> None:
        """Do a piece of work once there is time for it. The time in which it waits for something
        itself is not counted.
        """
        await self.turn()
        took_s = await _steps(work, self._spend)
        self._piece_s += (min(took_s, self._slice_s) - self._piece_s) / _PIECES

    async def turn(self) -> None:
        """Return once there is time, also in the middle of a piece of work."""
        if not self._counting:
            self._counting = True
            self._left_s = self._slice_s
            asyncio.get_running_loop().call_soon(self._next_pass)
        if self._left_s > 0 and not self._waiting:
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _spend(self, seconds: float) -> None:
        self._left_s -= seconds

    def _next_pass(self) -> None:
        self._left_s = self._slice_s
        self._counting = bool(self._waiting)
        if self._counting:
            asyncio.get_running_loop().call_soon(self._next_pass)
        room = max(1, int(self._slice_s / max(self._piece_s, _LEAST_S)))
        while self._waiting and room:
            turn = self._waiting.popleft()
            if not turn.done():  # the one that waited may be gone
                turn.set_result(None)
                room -= 1


@types.coroutine
def _steps(work: Awaitable[None], spend: Callable[[float], None]) -> Generator[Any, Any, float]:
    """Do the work, tell `spend` the processor time of each of its steps, and return the sum."""
    steps, took_s = work.__await__(), 0.0
    go_on: Callable[[], Any] = partial(next, steps)
    step = go_on
    while True:
        began_s = time.thread_time()
        try:
            waits_for = step()
        except StopIteration:
            return took_s + time.thread_time() - began_s
        finally:
            spend(time.thread_time() - began_s)
            step = go_on  # This frame and an error that was thrown would keep each other.
        took_s += time.thread_time() - began_s
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
