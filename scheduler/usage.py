"""Deletes the hours of usage that are older than usage is kept."""

from __future__ import annotations

import asyncio
from typing import Protocol

from scheduler.settings import SchedulerSettings
from scheduler.term import put_off

EVERY_S = 300.0
AT_ONCE = 5_000
MAX_STATEMENTS = 200
"""Per round; what is left then waits for the next."""
DAY_S = 86_400.0


class Hours(Protocol):
    """The part of `metadata.usage_hours.UsageHours` that this needs."""

    async def prune(self, older_than_s: float, limit: int) -> int: ...


class UsageKeeper:
    """One term of leadership."""

    def __init__(self, hours: Hours, settings: SchedulerSettings) -> None:
        self._hours = hours
        self._older_than_s = settings.usage_retention_days * DAY_S

    async def run(self) -> None:
        """For ever."""
        while True:
            await put_off("usage", self.round())
            await asyncio.sleep(EVERY_S)

    async def round(self) -> None:
        """Raises MetadataError."""
        for _ in range(MAX_STATEMENTS):
            if await self._hours.prune(self._older_than_s, AT_ONCE) < AT_ONCE:
                return
