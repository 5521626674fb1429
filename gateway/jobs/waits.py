"""Serves callers that wait for tasks, or for the end of a job.

A notifier says which pools may have tasks and which jobs ended, and a look each second asks once
for all that wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.shares import FairSemaphore, Shares
from gateway.jobs import metrics
from gateway.jobs.end_watch import EndWatch
from gateway.jobs.transition_batches import TransitionBatches
from gateway.wait_list import Claims, look_after
from metadata.database import Database
from metadata.jobs.claims import JobLeaseRepository, Wanted
from metadata.jobs.jobs import JobRepository
from metadata.jobs.machine import Release
from metadata.jobs.notices import notifier
from metadata.jobs.transaction import TaskTransition
from metadata.jobs.types import LeasedTask

MAX_WAITING = 10_000
"""The number of claims that may wait in one process."""
MAX_TRIES = 4
"""The number of tries at once, half of them for one tenant.

Tries of a pool with a limit wait for each other, on connections that others need.
"""


class Tasks(NamedTuple):
    """The tasks for which the claims of one wait list ask."""

    tenant_id: bytes
    pool: str
    kinds: tuple[str, ...]


class TaskClaims(Claims[Tasks, Wanted, list[LeasedTask]]):
    """The claims on tasks; those of the same kinds of one pool wait in one list."""

    def __init__(self, leases: JobLeaseRepository) -> None:
        waiting = Shares(MAX_WAITING, name="claim_waits")
        tries = FairSemaphore(Shares(MAX_TRIES), Shares(MAX_WAITING, name="claim_tries"))
        super().__init__(waiting, tries, metrics.waiting)
        self._leases = leases

    async def take(self, key: Tasks, wanted: Wanted) -> list[LeasedTask]:
        return await self._leases.claim(key.tenant_id, wanted)

    async def give_back(self, key: Tasks, got: Sequence[LeasedTask]) -> None:
        await self._leases.apply(
            key.tenant_id, [TaskTransition(task.lease, Release()) for task in got]
        )

    def tasks_wait(self, tenant_id: bytes, pool: str) -> None:
        """Wake the claims on tasks of that pool."""
        self.notice(lambda key: key[:2] == (tenant_id, pool))

    async def look(self) -> None:
        """Wake the claims that may find something. Raises MetadataError."""
        keys = self.waits.awaited()
        for at in await self._leases.claimable(keys):
            self.waits.wake(keys[at])


class JobWaits:
    """Keeps the waiting callers of one process; `run` it, and `close` it last."""

    def __init__(self, database: Database) -> None:
        leases = JobLeaseRepository(database)
        self.claims = TaskClaims(leases)
        self.transitions = TransitionBatches(leases)
        self._needed = self.claims.waits.needed
        self.ends = EndWatch(JobRepository(database), leases, self._needed.set)
        self._notifier = notifier(
            database, self.claims.tasks_wait, self.ends.job_ended, self.claims.notice
        )

    async def run(self) -> None:
        """Listen and look until cancelled; do nothing until somebody waits."""
        await look_after(self._needed, self._notifier, self._look)

    def drain(self) -> None:
        """Answer every waiting caller now."""
        self.claims.waits.drain()
        self.ends.drain()

    async def close(self) -> None:
        """End the waits, after the last caller has gone."""
        await self.transitions.close()
        await self.claims.waits.close()

    async def _look(self) -> None:
        await self.claims.look()
        await self.ends.look()
