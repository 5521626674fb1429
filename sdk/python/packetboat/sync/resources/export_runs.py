# Generated from aio/resources/export_runs.py: `make generate`. Do not edit.
"""Runs of exports, for the runners that carry them out with the permission `run_exports`."""

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
    """Runs of exports, for the runners that carry them out with the permission `run_exports`."""

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
        """Lease a run whose table is in one of the lakes. Return None where none comes within
        `wait_seconds`. A run whose answer is lost is leased again after `lease_seconds`."""
        return self._sender.send(
            calls.claim_export_run(runner, lakes, lease_seconds, wait_seconds), timeout_s
        )

    def plan(
        self,
        uid: str,
        lease: str,
        positions: Sequence[LanePosition],
        *,
        timeout_s: float | None = None,
    ) -> tuple[LaneRange, ...]:
        """Return the messages that the run has to write, from the positions of the table. The same
        positions give the same ranges again."""
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
        """Begin the lease and the token anew. `log` is the text since the last renewal. Raise
        Conflict, `lease-lost`, once the lease is over: commit nothing more."""
        return self._sender.send(
            calls.renew_export_run(uid, lease, lease_seconds, progress, log), timeout_s
        )

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
        """End the run. `positions` are those of the table now, None where they are not known. With
        `retry` another attempt may follow."""
        self._sender.send(
            calls.finish_export_run(uid, lease, state, result, positions, failure, retry, log),
            timeout_s,
        )
