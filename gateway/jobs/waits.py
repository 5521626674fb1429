"""The wait lists that requests of this process share, and their wake-ups: a notifier, and a
look each second.
"""

from __future__ import annotations

import asyncio
import random

import structlog

from gateway.jobs.claim_line import ClaimLine
from gateway.jobs.end_watch import EndWatch
from gateway.jobs.settle_line import SettleLine
from metadata.database import Database
from metadata.errors import MetadataError
from metadata.jobs.bell import JobBell
from metadata.jobs.claims import JobLeaseRepository
from metadata.jobs.jobs import JobRepository

LOOK_EVERY_S = 1.0
"""About: for rings that got lost, and for what becomes ready by time alone."""
_log = structlog.get_logger("packetboat.jobs")


class JobWaits:
    """One per process; `run` it, and `close` it last."""

    def __init__(self, database: Database) -> None:
        leases = JobLeaseRepository(database)
        self._needed = asyncio.Event()
        self.line = ClaimLine(leases, self._needed.set)
        self.settling = SettleLine(leases)
        self.ends = EndWatch(JobRepository(database), leases, self._needed.set)
        self._bell = JobBell(database, self.line.rung, self.ends.rung, self.line.wake_all)

    async def run(self) -> None:
        """Listen and look until cancelled; do nothing until somebody waits."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bell.run())
            tasks.create_task(self._look())

    def drain(self) -> None:
        """Answer every waiting caller now."""
        self.line.drain()
        self.ends.drain()

    async def close(self) -> None:
        """After the last caller has gone."""
        await self.settling.close()
        await self.line.close()

    async def _look(self) -> None:
        while True:
            # Not all processes at the same moment.
            await asyncio.sleep(LOOK_EVERY_S * random.uniform(0.75, 1.25))
            try:
                await self.line.look()
                await self.ends.look()
            except MetadataError as error:
                _log.debug("nothing is known of jobs now", error=str(error))
