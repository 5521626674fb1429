# Generated from openapi/: `make generate`. Do not edit.
"""Calls of export runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    member,
    member_or_none,
    nothing,
    part,
    put,
    send_json,
    waiting,
)
from packetboat.models.export_runs import (
    ClaimedExportRun,
    ExportLease,
    FinishedState,
    LanePosition,
    LaneRange,
)
from packetboat.models.exports import ExportFailure, ExportProgress, ExportResult


def claim_export_run(
    runner: str, lakes: Sequence[str], lease_seconds: float, wait_seconds: float
) -> Call[ClaimedExportRun | None]:
    body: dict[str, Any] = {
        "runner": runner,
        "lakes": lakes,
        "lease_seconds": lease_seconds,
        "wait_seconds": wait_seconds,
    }
    return waiting(
        Call(
            send_json("POST", "/export_runs:claim", body), member_or_none("run", ClaimedExportRun)
        ),
        wait_seconds,
    )


def plan_export_run(
    uid: str, lease: str, positions: Sequence[LanePosition]
) -> Call[tuple[LaneRange, ...]]:
    body: dict[str, Any] = {"lease": lease, "positions": positions}
    return Call(
        send_json("POST", f"/export_runs/{part(uid)}:plan", body),
        member("ranges", tuple[LaneRange, ...]),
        safe=True,
    )


def renew_export_run(
    uid: str, lease: str, lease_seconds: float, progress: ExportProgress | None, log: str | None
) -> Call[ExportLease]:
    body: dict[str, Any] = {"lease": lease, "lease_seconds": lease_seconds}
    put(body, progress=progress, log=log)
    return change("POST", f"/export_runs/{part(uid)}:renew", body, ExportLease, safe=log is None)


def finish_export_run(
    uid: str,
    lease: str,
    state: FinishedState,
    result: ExportResult | None,
    positions: Sequence[LanePosition] | None,
    failure: ExportFailure | None,
    retry: bool,
    log: str | None,
) -> Call[None]:
    body: dict[str, Any] = {"lease": lease, "state": state, "retry": retry}
    put(body, result=result, positions=positions, failure=failure, log=log)
    return Call(send_json("POST", f"/export_runs/{part(uid)}:finish", body), nothing, safe=True)
