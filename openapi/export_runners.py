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
    """Seconds that the lease holds unless it is renewed."""
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds to wait for a run."""


class ExportSpecMaintenance(Answer):
    """The rules of runs that maintain the table."""

    target_file_bytes: int
    """The size of the files that small ones are joined into."""
    keep_snapshots_s: int
    """Seconds after which snapshots of the table are removed."""
    orphans_after_s: int
    """Seconds after which files that belong to no snapshot are removed."""


class ExportSpec(ExportShape, Answer, kw_only=True):
    """An export as a run of it needs it."""

    maintenance: ExportSpecMaintenance
    """The rules of runs that maintain the table."""


class ExportLaneRange(Answer):
    """The offsets `start` to `end` - 1 of a lane. `position` is that of the table, where it is
    below `start`: messages between the two are not to be exported, or are gone from the log."""

    key: ExportLaneKey
    """The lane."""
    start: Total
    """The first offset to read."""
    end: Total
    """One past the last offset to read."""
    position: Total | UnsetType = UNSET
    """The position of the table, where it is below `start`."""


class ExportRunLease(Answer):
    """A run that is leased to a runner, which renews the lease before it ends."""

    uid: str
    """The id of the run, by which its runner calls."""
    lease: str
    """The secret that shows who has the run."""
    lease_until: datetime
    """The time at which the lease ends, unless it is renewed."""
    tenant: str
    """The tenant's name."""
    export: ExportSpec
    """The export, as the run needs it."""
    number: Positive
    """The number of the run, which grows over the runs of an export."""
    kind: Kind
    """The kind of work."""
    attempt: Positive
    """The number of this attempt, from 1."""
    ranges: list[ExportLaneRange] | None
    """The messages to read, if they are fixed already."""
    token: str
    """A token that reads the topics of the export and nothing else."""
    token_expires_at: datetime
    """The time at which the token ends; each renewal brings a new one."""


class ExportRunClaimed(Answer):
    """A run, if there is one."""

    run: ExportRunLease | None
    """The run; null where none came in time."""


class ExportLanePosition(Body):
    """The offset of a lane below which every message is in the table."""

    key: ExportLaneKey
    """The lane."""
    offset: Total
    """The offset below which every message is in the table."""


Positions = Annotated[list[ExportLanePosition], Meta(max_length=100_000)]


class ExportRunPositions(Body):
    """The positions of the table, from which a run is planned."""

    lease: Lease
    """The secret of the lease, as the claim gave it."""
    positions: Positions
    """The position of the table in each lane; empty of a new table."""


class ExportRunPlan(Answer):
    """The messages that a run reads."""

    ranges: list[ExportLaneRange]
    """The offsets to read of each lane."""


class ExportRunRenew(Body):
    """A request to hold a run for longer."""

    lease: Lease
    """The secret of the lease, as the claim gave it."""
    lease_seconds: LeaseSeconds = 60.0
    """Seconds that the lease holds from now on."""
    progress: ExportRunProgress | None = None
    """The progress to show; null leaves what is shown."""
    log: Log | None = None
    """Text that is added to the log of the run."""


class ExportRunRenewed(Answer):
    """The lease of a run, and a new token."""

    lease_until: datetime
    """The time at which the lease ends, unless it is renewed again."""
    cancelled: bool
    """Whether the runner is to commit nothing more, and to finish the run."""
    token: str
    """A new token in place of the one before."""
    token_expires_at: datetime
    """The time at which the token ends."""


class ExportRunFinish(Body):
    """The end of a run."""

    lease: Lease
    """The secret of the lease, as the claim gave it."""
    state: FinishedState
    """The end of the run, or of this attempt."""
    result: ExportRunResult | None = None
    """The result of a run that succeeded."""
    positions: Positions | None = None
    """The positions of the table now; null where they are not known."""
    failure: RunFailureGiven | None = None
    """The reason of a failure; null of a run that did not fail."""
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
            "whose lease ends can be claimed again. The caller needs `run_exports`, which "
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
