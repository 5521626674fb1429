"""Deletes the history of acks that nobody can ask for any more."""

from __future__ import annotations

import asyncio
from typing import Protocol

from scheduler.limits import DEFAULT_AGE_S
from scheduler.term import put_off

EVERY_S = 60.0
AT_ONCE = 10_000
MAX_STATEMENTS = 100
"""Per round; what is left then waits for the next."""


class History(Protocol):
    """The part of `metadata.ack_history.AckHistoryRepository` that this needs."""

    async def trim(self, default_retention_s: int, limit: int = ...) -> int: ...


class HistoryKeeper:
    """One term of leadership."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def run(self) -> None:
        """For ever."""
        while True:
            await put_off("ack history", self.round())
            await asyncio.sleep(EVERY_S)

    async def round(self) -> None:
        """Raises MetadataError."""
        for _ in range(MAX_STATEMENTS):
            if await self._history.trim(DEFAULT_AGE_S, AT_ONCE) < AT_ONCE:
                return
