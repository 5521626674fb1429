# Generated from aio/resources/export_runs.py: `make generate`. Do not edit.
"""What runners of exports do; needs the permission `run_exports`."""

from __future__ import annotations

from collections.abc import Sequence

from packetboat.calls import export_runs as calls
from packetboat.models.export_runs import (
    ClaimedExportRun,
    ExportLease,
    FinishedState,
    LanePosition,
    LaneRange,
)
from packetboat.models.exports import ExportFailure, ExportProgress, ExportResult
from packetboat.sync.sender import Sender


class ExportRuns:
    """What runners of exports do; needs the permission `run_exports`. Once the lease of a run is
    over, or another's, what is said of it raises Conflict: `lease-lost`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def claim(
        self,
        runner: str,
        lakes: Sequence[str],
        *,
        lease_seconds: float = 60,
        wait_seconds: float = 0,
        timeout_s: float | None = None,
    ) -> ClaimedExportRun | None:
        """Leases a run whose table is in one of these lakes; None: none came within the wait."""
        call = calls.claim_export_run(runner, lakes, lease_seconds, wait_seconds)
        return self._sender.send(call, timeout_s)

    def plan(
        self,
        uid: str,
        lease: str,
        positions: Sequence[LanePosition],
        *,
        timeout_s: float | None = None,
    ) -> Sequence[LaneRange]:
        """What the run is to write, from what the table has. Asked again with the same positions
        it is the same."""
        return self._sender.send(calls.plan_export_run(uid, lease, positions), timeout_s)

    def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float = 60,
        progress: ExportProgress | None = None,
        log: str | None = None,
        timeout_s: float | None = None,
    ) -> ExportLease:
        """Its lease begins anew, and its token too; `log` is what came since the last renewal."""
        call = calls.renew_export_run(uid, lease, lease_seconds, progress, log)
        return self._sender.send(call, timeout_s)

    def finish(
        self,
        uid: str,
        lease: str,
        state: FinishedState,
        *,
        result: ExportResult | None = None,
        positions: Sequence[LanePosition] | None = None,
        failure: ExportFailure | None = None,
        retry: bool = False,
        log: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """How it ended; `positions` is what the table has now, None where that is not known.
        `retry`: another attempt may succeed."""
        call = calls.finish_export_run(uid, lease, state, result, positions, failure, retry, log)
        self._sender.send(call, timeout_s)
