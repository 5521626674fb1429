"""The time of the newest backup, for an alert on backups that are old (`packetboat backup`)."""

from __future__ import annotations

import asyncio

from scheduler import metrics
from scheduler.term import put_off
from store_nodes.backup.counter import COUNTER, GROUP
from store_nodes.client import StoreClient

EVERY_S = 30.0


class BackupAge:
    """The metric of the newest backup, in one term of leadership."""

    def __init__(self, store: StoreClient, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s

    async def run(self) -> None:
        """Read the time regularly; a scheduler that no longer leads reports 0."""
        try:
            while True:
                await put_off("backup_age", self._look())
                await asyncio.sleep(EVERY_S)
        finally:
            metrics.backup_began_seconds.set(0)

    async def _look(self) -> None:
        began_s = await self._store.counter(GROUP, COUNTER, timeout_s=self._timeout_s)
        metrics.backup_began_seconds.set(began_s)
