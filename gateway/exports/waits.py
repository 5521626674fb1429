"""Wakes the claims of this process that wait for a run: on a notification, and once a second."""

from __future__ import annotations

import asyncio
import random

from gateway.exports.claim_line import ClaimLine
from metadata.database import Database
from metadata.exports.bell import ExportBell
from metadata.exports.leases import ExportLeaseRepository

LOOK_EVERY_S = 1.0
"""About: for rings that got lost, and for what becomes ready by time alone."""


class ExportWaits:
    """One per process; `run` it, and `close` it last."""

    def __init__(self, database: Database) -> None:
        self._needed = asyncio.Event()
        self.line = ClaimLine(ExportLeaseRepository(database), self._needed.set)
        self._bell = ExportBell(database, self.line.rung, self.line.wake_all)

    async def run(self) -> None:
        """Run for ever. Do nothing until the first claim waits."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bell.run())
            tasks.create_task(self._look())

    def drain(self) -> None:
        """Answer all waiting claims now."""
        self.line.drain()

    async def close(self) -> None:
        """After the last caller has gone."""
        await self.line.close()

    async def _look(self) -> None:
        while True:
            # Not all processes at the same moment.
            await asyncio.sleep(LOOK_EVERY_S * random.uniform(0.75, 1.25))
            self.line.wake_all()
