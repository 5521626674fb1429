"""Deletes rows that are older than they are kept: some at a time, over and over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from scheduler.term import put_off

AT_ONCE = 5_000
MAX_STATEMENTS = 200
"""Per round; what is left then waits for the next."""

Prune = Callable[[float, int], Awaitable[int]]
"""How many went that are older than so many seconds, at most so many."""


class Pruning:
    """Of one kind of rows, in one term of leadership."""

    def __init__(self, what: str, prune: Prune, older_than_s: float, every_s: float) -> None:
        """`what`: as failures are counted."""
        self._what = what
        self._prune = prune
        self._older_than_s = older_than_s
        self._every_s = every_s

    async def run(self) -> None:
        """For ever."""
        while True:
            await put_off(self._what, self.round())
            await asyncio.sleep(self._every_s)

    async def round(self) -> None:
        """Raises MetadataError."""
        for _ in range(MAX_STATEMENTS):
            if await self._prune(self._older_than_s, AT_ONCE) < AT_ONCE:
                return
