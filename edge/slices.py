"""Long work on the event loop, in slices: between two of them everybody else has a turn."""

from __future__ import annotations

import asyncio
import time

SLICE_S = 0.005


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
