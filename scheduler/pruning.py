"""Deletes rows that are older than they are kept, some at a time, regularly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from scheduler.term import put_off

AT_ONCE = 5_000
MAX_STATEMENTS = 200
"""Statements per round; rows that are left then wait for the next round."""

Prune = Callable[[float, int], Awaitable[int]]
"""Deletes at most `count` rows older than `older_than_s`; returns how many it deleted."""


class Pruning:
    """Prunes one kind of rows, in one term of leadership."""

    def __init__(self, what: str, prune: Prune, older_than_s: float, every_s: float) -> None:
        """Prepare pruning; failures are counted under `what`."""
        self._what = what
        self._prune = prune
        self._older_than_s = older_than_s
        self._every_s = every_s

    async def run(self) -> None:
        """Prune regularly until this is cancelled."""
        while True:
            await put_off(self._what, self.round())
            await asyncio.sleep(self._every_s)

    async def round(self) -> None:
        """Prune once. Raises MetadataError."""
        for _ in range(MAX_STATEMENTS):
            if await self._prune(self._older_than_s, AT_ONCE) < AT_ONCE:
                return
