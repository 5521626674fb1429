"""Regular work on jobs: expired leases return their tasks, ended jobs are swept and deleted.

No single process has to do any of it: each step is a transaction that finds what is to be done. So
a scheduler that dies, or two at once, lose nothing and count nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from metadata.database import Database
from metadata.errors import MetadataError
from metadata.jobs.claims import JobLeaseRepository
from metadata.jobs.machine import Expire, Verdict
from metadata.jobs.steps import JobSteps
from metadata.jobs.sweep import JobSweepRepository, UnfinishedJob
from metadata.jobs.transaction import TaskTransition
from metadata.jobs.types import Lease
from scheduler import metrics
from scheduler.term import put_off

AT_ONCE = 500
"""Leases, or jobs, of one look."""
MAX_LOOKS = 20
"""Looks at leases per round; leases that are left then wait for the next round."""


class JobKeeper:
    """Looks after jobs in one term of leadership."""

    def __init__(self, database: Database, every_s: float) -> None:
        self._leases = JobLeaseRepository(database)
        self._steps = JobSteps(database)
        self._sweeping = JobSweepRepository(database)
        self._every_s = every_s

    async def run(self) -> None:
        """Work regularly until this is cancelled."""
        while True:
            await put_off("jobs", self.look())
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Ask once whether there is anything to do, and do it. Raises MetadataError of the
        question alone.
        """
        if await self._sweeping.due():
            for part in (self.expire, self.prune, self.sweep):
                await put_off("jobs", part())

    async def expire(self) -> None:
        """End expired leases. Raises MetadataError, after it has tried all of them."""
        for _ in range(MAX_LOOKS):
            found = await self._sweeping.expired(AT_ONCE)
            by_tenant: dict[bytes, list[Lease]] = {}
            for tenant_id, lease in found:
                by_tenant.setdefault(tenant_id, []).append(lease)
            failure: MetadataError | None = None
            for tenant_id, leases in by_tenant.items():
                try:
                    await self._expire(tenant_id, leases)
                except MetadataError as error:
                    failure = error  # other tenants must not wait for a failure of this one
            if failure is not None:
                raise failure
            if len(found) < AT_ONCE:
                return

    async def _expire(self, tenant_id: bytes, leases: Sequence[Lease]) -> None:
        items = [TaskTransition(lease, Expire()) for lease in leases]
        verdicts = await self._leases.apply(tenant_id, items)
        metrics.job_leases_expired.inc(verdicts.count(Verdict.DONE))

    async def prune(self) -> None:
        """Delete jobs that were kept for long enough. Raises MetadataError."""
        while await self._sweeping.prune(AT_ONCE) == AT_ONCE:
            pass

    async def sweep(self) -> None:
        """Sweep tasks and children of jobs that ended or were deleted. Raises MetadataError."""
        for behind in await self._sweeping.behind(AT_ONCE):
            await self._sweep(behind)

    async def _sweep(self, behind: UnfinishedJob) -> None:
        if behind.ends_children:
            await self._steps.cancel_children(behind.tenant_id, [behind.uid])
        while not await self._sweeping.sweep(behind):
            pass
