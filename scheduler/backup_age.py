"""When the newest backup was begun, for an alert on backups that are old (`packetboat backup`)."""

from __future__ import annotations

import asyncio
from typing import Protocol

from scheduler import metrics
from scheduler.term import put_off
from store_nodes.backup.counter import COUNTER, GROUP

EVERY_S = 30.0


class Counters(Protocol):
    """What it uses of the store; raises StoreError."""

    async def counter(self, group: int, name: str, *, timeout_s: float) -> int: ...


class BackupAge:
    """One term of leadership."""

    def __init__(self, store: Counters, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s

    async def run(self) -> None:
        """For ever; who does not lead tells nothing."""
        try:
            while True:
                await put_off("backup_age", self._look())
                await asyncio.sleep(EVERY_S)
        finally:
            metrics.backup_began_seconds.set(0)

    async def _look(self) -> None:
        began_s = await self._store.counter(GROUP, COUNTER, timeout_s=self._timeout_s)
        metrics.backup_began_seconds.set(began_s)
