"""The calls of the runners that carry out runs of exports, for all tenants."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import CONFLICT, Positive, Text, Total
from openapi.contract import Answer, Body, Operation, ok, table
from openapi.export_runs import (
    ExportLaneKey,
    ExportRunProgress,
    ExportRunResult,
    Kind,
    RunFailureGiven,
)
from openapi.exports import ExportShape

LeaseSeconds = Annotated[float, Meta(ge=1, le=3600)]
Lease = Annotated[str, Meta(min_length=1, max_length=64)]
FinishedState = Literal["succeeded", "failed", "cancelled"]
Log = Annotated[str, Meta(max_length=65_536)]


class ExportRunClaim(Body):
    """A request for a run."""

    runner: Text
    """The runner's name, for people."""
    lakes: Annotated[list[Text], Meta(min_length=1, max_length=100)]
    """The lakes that the runner can write to."""
    lease_seconds: LeaseSeconds = 60.0
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds to wait for a run."""


class ExportSpecMaintenance(Answer):
    """The rules of runs that maintain the table."""

    target_file_bytes: int
    keep_snapshots_s: int
    orphans_after_s: int


class ExportSpec(ExportShape, Answer, kw_only=True):
    """An export as a run of it needs it."""

    maintenance: ExportSpecMaintenance


class ExportLaneRange(Answer):
    """The offsets `start` to `end` - 1 of a lane. `position` is that of the table, where it is
    below `start`: messages between the two are not to be exported, or are gone from the log."""

    key: ExportLaneKey
    start: Total
    end: Total
    position: Total | UnsetType = UNSET


class ExportRunLease(Answer):
    """A run that is leased to a runner, which renews the lease before it ends."""

    uid: str
    lease: str
    """The secret that shows who has the run."""
    lease_until: datetime
    tenant: str
    """The tenant's name."""
    export: ExportSpec
    number: Positive
    kind: Kind
    attempt: Positive
    ranges: list[ExportLaneRange] | None
    """The messages to read, if they are fixed already."""
    token: str
    """A token that reads the topics of the export and nothing else."""
    token_expires_at: datetime


class ExportRunClaimed(Answer):
    """A run, if there is one."""

    run: ExportRunLease | None


class ExportLanePosition(Body):
    """The offset of a lane below which every message is in the table."""

    key: ExportLaneKey
    offset: Total


Positions = Annotated[list[ExportLanePosition], Meta(max_length=100_000)]


class ExportRunPositions(Body):
    """The positions of the table, from which a run is planned."""

    lease: Lease
    positions: Positions


class ExportRunPlan(Answer):
    """The messages that a run reads."""

    ranges: list[ExportLaneRange]


class ExportRunRenew(Body):
    """A request to hold a run for longer."""

    lease: Lease
    lease_seconds: LeaseSeconds = 60.0
    progress: ExportRunProgress | None = None
    log: Log | None = None
    """Text that is added to the log of the run."""


class ExportRunRenewed(Answer):
    """The lease of a run, and a new token."""

    lease_until: datetime
    cancelled: bool
    """Whether the runner is to commit nothing more, and to finish the run."""
    token: str
    token_expires_at: datetime


class ExportRunFinish(Body):
    """The end of a run."""

    lease: Lease
    state: FinishedState
    result: ExportRunResult | None = None
    positions: Positions | None = None
    """The positions of the table now; null where they are not known."""
    failure: RunFailureGiven | None = None
    retry: bool = False
    """Whether another attempt may succeed."""
    log: Log | None = None
    """Text that is added to the log of the run."""


class ExportRunFinished(Answer):
    """An answer without fields."""


OPERATIONS = table(
    "exports",
    Operation(
        id="claimExportRun",
        route="POST /export_runs:claim",
        needs="run_exports *",
        summary="Claim a run",
        description=(
            "Runners get the oldest run of any tenant that waits for one of their lakes. A run "
            "whose lease ends is handed out again. The caller needs `run_exports`, which "
            "operators have and no tenant can grant."
        ),
        body=ExportRunClaim,
        answers=(ok(ExportRunClaimed, "A leased run, or null where none came in time."),),
    ),
    Operation(
        id="planExportRun",
        route="POST /export_runs/{uid}:plan",
        needs="run_exports *",
        summary="Fix what a run reads",
        description=(
            "A run of the kind `export` reads each lane of its topics from the position of the "
            "table, or else from `start`, to the present end, and at most "
            "`PACKETBOAT_EXPORT_MAX_RUN_MESSAGES` messages in all. A backfill and a "
            "reconciliation read the ranges that were asked for. The caller needs `run_exports`."
        ),
        body=ExportRunPositions,
        answers=(
            ok(
                ExportRunPlan,
                "The ranges of the run; the same positions give the same ranges again.",
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="renewExportRun",
        route="POST /export_runs/{uid}:renew",
        needs="run_exports *",
        summary="Renew the lease of a run",
        description=(
            "The request also has the progress of the run, and text for its log. The caller "
            "needs `run_exports`."
        ),
        body=ExportRunRenew,
        answers=(ok(ExportRunRenewed, "The end of the lease, and whether to stop."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="finishExportRun",
        route="POST /export_runs/{uid}:finish",
        needs="run_exports *",
        summary="Finish a run",
        description=(
            "Messages below `positions` are no longer kept for the export. A failed run with "
            "`retry` waits for another attempt, if it has any left. The caller needs "
            "`run_exports`."
        ),
        body=ExportRunFinish,
        answers=(
            ok(
                ExportRunFinished,
                "The end is written down. The same request gets the same answer again.",
            ),
        ),
        problems=(CONFLICT,),
    ),
)
