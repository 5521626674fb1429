"""Claims of this process that wait for runs of exports.

A notifier says of which lakes runs may be claimed, and a look each second asks once for all that
wait: a run can become ready by time alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from edge.shares import FairSemaphore, Shares
from gateway.exports import metrics
from gateway.wait_list import Claims, look_after
from metadata.database import Database
from metadata.exports.leases import ExportLeaseRepository
from metadata.exports.notices import notifier
from metadata.exports.types import ClaimedRun

MAX_WAITING = 1_000
"""The limit of waiting claims in one process.

Runners belong to the platform, so no tenant has a share of it.
"""
MAX_TRIES = 4
"""The number of claims that are tried at once."""


class Runner(NamedTuple):
    """A runner that asks for a run, and the time for which it leases the run."""

    name: str
    lease_s: float


Lakes = tuple[str, ...]
"""The lakes, in ascending order, for which the claims of one wait list ask."""


class RunClaims(Claims[Lakes, Runner, ClaimedRun]):
    """The claims on runs; those of the same lakes wait in one list."""

    def __init__(self, leases: ExportLeaseRepository) -> None:
        waiting = Shares(MAX_WAITING, share=1.0, name="export_claim_waits")
        tries = FairSemaphore(Shares(MAX_TRIES, share=1.0), Shares(math.inf))
        super().__init__(waiting, tries, metrics.waiting)
        self._leases = leases

    async def take(self, key: Lakes, wanted: Runner) -> ClaimedRun | None:
        return await self._leases.claim(key, *wanted)

    async def give_back(self, key: Lakes, got: ClaimedRun) -> None:
        await self._leases.release(got.id, got.lease)

    def runs_wait(self, lake: str) -> None:
        """Wake the claims on runs of that lake."""
        self.notice(lambda lakes: lake in lakes)

    async def run(self, database: Database) -> None:
        """Listen and look until cancelled; do nothing until somebody waits."""
        listening = notifier(database, self.runs_wait, self.notice)
        await look_after(self.waits.needed, listening, self.look)

    async def look(self) -> None:
        """Wake the claims that may find a run. Raises MetadataError."""
        if lakes := {lake for key in self.waits.awaited() for lake in key}:
            for lake in await self._leases.claimable(sorted(lakes)):
                self.runs_wait(lake)
