"""What runners of exports do: claim a run, have it planned, renew its lease, and finish it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from packetboat.calls.call import TIMEOUT_S, Call, change, part, put, reader, send_json
from packetboat.models.export_runs import (
    ClaimedExportRun,
    ExportLease,
    FinishedState,
    LanePosition,
    LaneRange,
)
from packetboat.models.exports import ExportFailure, ExportProgress, ExportResult


class _Claimed(msgspec.Struct):
    run: ClaimedExportRun | None


class _Planned(msgspec.Struct):
    ranges: tuple[LaneRange, ...]


def claim_export_run(
    runner: str, lakes: Sequence[str], lease_seconds: float, wait_seconds: float
) -> Call[ClaimedExportRun | None]:
    """Not safe: a run whose answer was lost waits for the end of its lease."""
    body: dict[str, Any] = {"runner": runner, "lakes": list(lakes)}
    body |= {"lease_seconds": lease_seconds, "wait_seconds": wait_seconds}
    request = send_json("POST", "/export_runs:claim", body)
    read = reader(_Claimed)
    waiting = request._replace(timeout_s=TIMEOUT_S + wait_seconds)
    return Call(waiting, lambda raw: read(raw).run)


def plan_export_run(
    uid: str, lease: str, positions: Sequence[LanePosition]
) -> Call[tuple[LaneRange, ...]]:
    body = {"lease": lease, "positions": list(positions)}
    request = send_json("POST", f"{_path(uid)}:plan", body)
    read = reader(_Planned)
    return Call(request, lambda raw: read(raw).ranges, safe=True)


def renew_export_run(
    uid: str,
    lease: str,
    lease_seconds: float,
    progress: ExportProgress | None,
    log: str | None,
) -> Call[ExportLease]:
    """Not safe with a log: what was sent twice is there twice."""
    body: dict[str, Any] = {"lease": lease, "lease_seconds": lease_seconds}
    put(body, progress=progress, log=log)
    return change("POST", f"{_path(uid)}:renew", body, ExportLease, safe=log is None)


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
    """Safe: repeated with the same lease it is answered alike."""
    body: dict[str, Any] = {"lease": lease, "state": state, "retry": retry}
    put(body, result=result, failure=failure, log=log)
    put(body, positions=None if positions is None else list(positions))
    request = send_json("POST", f"{_path(uid)}:finish", body)
    return Call(request, lambda _: None, safe=True)


def _path(uid: str) -> str:
    return f"/export_runs/{part(uid)}"
