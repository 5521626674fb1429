"""Long work on the event loop, in slices: between two of them everybody else has a turn."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Iterable

SLICE_S = 0.005
SORTED_AT_ONCE = 2_000


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
