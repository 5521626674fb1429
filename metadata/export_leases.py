"""Runs of exports, as runners hold them: claim, plan, renew, finish.

A lease that is over holds nothing, whether another has the run by then or not: it is never renewed,
plans nothing and finishes nothing. Time is Postgres' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from metadata.database import Database
from metadata.export_types import (
    ClaimedRun,
    Ending,
    ExportSpec,
    LaneEnd,
    LanePosition,
    LaneRange,
    RunId,
    RunProgress,
)


@dataclass(frozen=True, slots=True)
class Held:
    """What a lease holds, as it is needed to serve its holder."""

    spec: ExportSpec
    kind: str
    number: int
    ranges: tuple[LaneRange, ...] | None


class Renewed(NamedTuple):
    """`cancelled`: commit nothing more, and finish. `spec` as it is now."""

    lease_until: datetime
    cancelled: bool
    spec: ExportSpec
    attempt: int


class Finished(NamedTuple):
    """`state` of the run from now on: `queued` where another attempt follows. `attempt` is the one
    that ended."""

    state: str
    kind: str
    spec: ExportSpec
    attempt: int


class ExportLeaseRepository:
    """Leases are 16 bytes that each claim makes anew."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, lakes: Sequence[str], runner: str, lease_s: float) -> ClaimedRun | None:
        """A queued run of an active tenant's export to one of these lakes; None where there is
        none. Tenants of which fewer run come first, then who waited longest."""
        raise NotImplementedError

    async def release(self, run_id: RunId, lease: bytes) -> None:
        """Nobody was told of it: it is queued again as if it had not been claimed. Nothing where the
        lease is lost."""
        raise NotImplementedError

    async def held(self, run_id: RunId, lease: bytes) -> Held:
        """LeaseLost."""
        raise NotImplementedError

    async def plan(
        self,
        run_id: RunId,
        lease: bytes,
        positions: Sequence[LanePosition],
        ends: Sequence[LaneEnd],
        max_messages: int,
    ) -> tuple[LaneRange, ...]:
        """The manifest of the run, fixed: from `positions` (of the table) to `ends` (of the lanes
        there are now), at most `max_messages` in all. Asked again for the same positions it is the
        same, as long as its messages are there; of a run with ranges of its own it is these."""
        raise NotImplementedError

    async def renew(
        self,
        run_id: RunId,
        lease: bytes,
        lease_s: float,
        progress: RunProgress | None = None,
        log: bytes = b"",
    ) -> Renewed:
        """For `lease_s` from now on; `log` is added to the run's. LeaseLost."""
        raise NotImplementedError

    async def finish(self, run_id: RunId, lease: bytes, ending: Ending) -> Finished:
        """Ends the run, or queues it for another attempt. Again under the same lease it changes
        nothing, and answers as before. LeaseLost."""
        raise NotImplementedError
