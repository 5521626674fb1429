"""Serves callers that wait for the end of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edge.shares import Shares
from gateway.wait_list import within
from metadata.jobs.claims import JobLeaseRepository
from metadata.jobs.jobs import JobRepository
from metadata.jobs.types import Job

MAX_WAITING = 10_000
"""The number of callers that may wait in one process, half of it for one tenant; a later
caller is answered at once.
"""


class EndWatch:
    """Keeps the waiting callers; one costs nothing until the notifier names its job."""

    def __init__(
        self,
        jobs: JobRepository,
        leases: JobLeaseRepository,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._jobs = jobs
        self._leases = leases
        self._on_wait = on_wait
        self._waiting: dict[tuple[bytes, bytes], set[asyncio.Event]] = {}
        self._waiting_of = Shares(MAX_WAITING, name="job_waits")
        self._draining = False

    async def get(self, tenant_id: bytes, name: str, wait_s: float) -> Job:
        """Return the job once it has ended, or after `wait_s`. Raises NotFound, also if it is
        deleted meanwhile.
        """
        job = await self._jobs.get(tenant_id, name)
        if job.finished or wait_s <= 0 or self._draining:
            return job
        if self._waiting_of.take(tenant_id) is not None:
            return job
        self._on_wait()
        key, ended = (tenant_id, job.uid), asyncio.Event()
        self._waiting.setdefault(key, set()).add(ended)
        try:
            # Between the look before and now it may have ended unheard.
            job = await self._jobs.get(tenant_id, name)
            if not job.finished:
                await within(ended, wait_s)
                job = await self._jobs.get(tenant_id, name)
        finally:
            self._leave(key, ended)
        return job

    def job_ended(self, tenant_id: bytes, job_uid: bytes) -> None:
        """Wake the callers that wait for that job, which has ended."""
        for ended in self._waiting.get((tenant_id, job_uid), ()):
            ended.set()

    async def look(self) -> None:
        """Asks once for all of them. Raises MetadataError."""
        for key in await self._leases.ended(list(self._waiting)):
            self.job_ended(*key)

    def drain(self) -> None:
        """Answer every waiting caller now."""
        self._draining = True
        for waiting in self._waiting.values():
            for ended in waiting:
                ended.set()

    def _leave(self, key: tuple[bytes, bytes], ended: asyncio.Event) -> None:
        self._waiting_of.release(key[0])
        waiting = self._waiting[key]
        waiting.discard(ended)
        if not waiting:
            del self._waiting[key]
