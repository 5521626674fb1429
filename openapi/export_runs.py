"""Runs of exports, and the calls of the runners that carry them out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    LOCATION,
    RATE_LIMITED,
    UNPROCESSABLE,
    Count,
    Hex128,
    Positive,
    Total,
)
from openapi.contract import Answer, Body, OpenBody, Operation, Success, ok, table

Kind = Literal["export", "backfill", "maintain", "reconcile"]
Stage = Annotated[str, Meta(max_length=64)]
Identifier = Annotated[str, Meta(max_length=512)]
Location = Annotated[str, Meta(max_length=2048)]
TopicValue = Annotated[str, Meta(max_length=128)]
LogDigest = Annotated[str, Meta(max_length=256)]
Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]
TopicValueValue = Annotated[str, Meta(min_length=1, max_length=128)]
LeaseSeconds = Annotated[float, Meta(ge=1, le=3600)]
Filter = Annotated[str, Meta(max_length=4096)]
Lease = Annotated[str, Meta(min_length=1, max_length=64)]
Log = Annotated[str, Meta(max_length=65_536)]


class ExportMaintenance(Body):
    target_file_bytes: Annotated[int, Meta(ge=1_048_576, le=2_147_483_648)] = 134_217_728
    """Files below half of it are joined, in partitions whose time is over."""
    keep_snapshots_seconds: Annotated[int, Meta(ge=60, le=315_360_000)] = 432_000
    """Older snapshots of the table go."""
    orphans_after_seconds: Annotated[int, Meta(ge=3600, le=31_536_000)] = 86_400
    """Files that belong to no snapshot go after so long."""


class ExportPosition(Answer):
    topic: str
    topic_uid: str
    """Tells a topic from a namesake that was made later."""
    partition: Count
    lane: Count
    """0 but in topics with priorities."""
    offset: Count
    """All below is exported, or was there before `start`."""
    end_offset: Count | None
    """One past the last message; null where that cannot be told now."""


class ExportRange(Answer):
    topic: str
    topic_uid: str
    """Tells a topic from a namesake that was made later."""
    partition: Count
    lane: Count
    """0 but in topics with priorities."""
    start: Count
    end: Count
    """One past the last."""


class ExportRunStage(Answer):
    stage: Stage
    rows: Total
    """Read so far."""
    bytes: Total
    of_messages: Total
    """Of the whole run."""


class LakeTableGiven(Body):
    identifier: Identifier
    location: Location
    metadata_location: Location | None
    snapshot_id: int | None


class CountDifference(Body):
    """An hour of a topic, by publish time, in which log and table differ."""

    topic: TopicValue
    hour_s: Total
    """In seconds of the epoch."""
    log_rows: Total
    table_rows: Total
    log_digest: LogDigest
    table_digest: LogDigest


class ExportRunResult(OpenBody):
    rows: Total = 0
    """In the table."""
    rejected: Total = 0
    """In the table of rejects."""
    filtered: Total = 0
    """In neither: the filter does not match."""
    bytes: Total = 0
    """Of bodies."""
    files: Total = 0
    file_bytes: Total = 0
    removed_files: Total = 0
    already: bool = False
    """An earlier attempt had committed it."""
    last_run: Total = 0
    """Of the table, where that had the run already."""
    table: LakeTableGiven | None = None
    rejects: LakeTableGiven | None = None
    new_columns: (
        Annotated[list[Annotated[str, Meta(max_length=1024)]], Meta(max_length=10_000)] | UnsetType
    ) = UNSET
    differences: Annotated[list[CountDifference], Meta(max_length=10_000)] | UnsetType = UNSET


class RunFailure(Answer):
    """Why the last attempt failed."""

    code: str
    """For programs."""
    message: str
    """For people."""


class ExportRun(Answer):
    number: Positive
    """Grows over the runs of an export."""
    export: str
    kind: Kind
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    trigger: Literal["schedule", "manual", "maintenance"]
    scheduled_for: datetime | None
    attempt: Count
    max_attempts: Positive
    ranges: list[ExportRange] | None
    """What it reads, once that is fixed; null in listings."""
    progress: ExportRunStage | None
    result: ExportRunResult | None
    failure: RunFailure | None
    """Of its last attempt."""
    runner: str | None
    """Who has it, or had it last."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ExportRunStart(Body):
    kind: Kind = "export"
    """`export`: what is new. `backfill`: a range, which replaces what the table has of it.
    `maintain`: join files and drop what is no longer needed. `reconcile`: compare log and
    table, by hours."""
    from_time: datetime | None = None
    """Of `backfill` and `reconcile`: what was published from then on."""
    to_time: datetime | None = None
    """What was published before."""
    from_offset: Total | None = None
    """Instead of from_time, in each lane."""
    to_offset: Total | None = None
    """Instead of to_time; one past the last."""
    topic: TopicValue | None = None
    """Only of this topic of the export."""
    partition: Partition | None = None
    """Only of this partition."""


class ExportRunPage(Answer):
    runs: list[ExportRun]
    next_page_token: str | None


class ExportRunClaim(Body):
    runner: TopicValueValue
    """Its name, for people."""
    lakes: Annotated[list[TopicValueValue], Meta(min_length=1, max_length=100)]
    lease_seconds: LeaseSeconds = 60.0
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class ExportSpecMaintenance(Answer):
    target_file_bytes: int
    keep_snapshots_s: int
    orphans_after_s: int


class ExportSpec(Answer):
    """An export as a run of it needs it."""

    name: str
    topic: TopicValueValue
    """A topic, or a pattern: `*` stands for any characters, also of topics that come later."""
    lake: TopicValue
    """One of those that the installation has."""
    table: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,62}\Z")]
    """In the lake, of this tenant; without it the name of the export, in small letters, `_` for
    what does not go."""
    format: Literal["iceberg", "parquet"]
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: Literal["json", "avro", "raw"]
    """How bodies become columns."""
    partition_by: Literal["hour", "day", "none"]
    """Of the publish time."""
    key_buckets: Annotated[int, Meta(ge=0, le=1024)]
    """Buckets of keys that the table is partitioned by, too; 0: none."""
    columns: Annotated[dict[str, str], Meta(max_length=1000)]
    """Types of body fields that are not to be found out: string, boolean, long, double, timestamp,
    date, binary, decimal(p,s)."""
    keep_data: bool
    """Keep bodies as they came, too."""
    filter: Filter | None
    """CEL; what it does not match is not exported."""
    max_bytes_per_second: Annotated[int, Meta(ge=1, le=1_000_000_000_000)] | None
    """Most that runs read."""
    maintenance: ExportSpecMaintenance


class ExportLaneKey(Body):
    topic: TopicValueValue
    topic_uid: Hex128
    partition: Partition
    lane: Annotated[int, Meta(ge=0, le=255)]


class ExportLaneRange(Answer):
    """The offsets `start` to `end` - 1. `position` is the table's, where it is below `start`; what
    lies between is not to be in it, or is gone from the log."""

    key: ExportLaneKey
    start: Total
    end: Total
    position: Total | UnsetType = UNSET


class ExportRunLease(Answer):
    uid: str
    lease: str
    lease_until: datetime
    tenant: str
    """The tenant's name."""
    export: ExportSpec
    number: Positive
    kind: Kind
    attempt: Positive
    ranges: list[ExportLaneRange] | None
    """Where they are fixed already."""
    token: str
    """Reads the topics of the export and nothing else."""
    token_expires_at: datetime


class ExportRunClaimed(Answer):
    run: ExportRunLease | None


class ExportLanePosition(Body):
    """All below `offset` is in the table."""

    key: ExportLaneKey
    offset: Total


class ExportRunPositions(Body):
    lease: Lease
    positions: Annotated[list[ExportLanePosition], Meta(max_length=100_000)]
    """What the table has."""


class ExportRunPlan(Answer):
    ranges: list[ExportLaneRange]


class ExportRunProgress(OpenBody):
    stage: Stage
    rows: Total = 0
    """Read so far."""
    bytes: Total = 0
    of_messages: Total = 0
    """Of the whole run."""


class ExportRunRenew(Body):
    lease: Lease
    lease_seconds: LeaseSeconds = 60.0
    progress: ExportRunProgress | None = None
    log: Log | None = None
    """Goes behind what the log has."""


class ExportRunRenewed(Answer):
    lease_until: datetime
    cancelled: bool
    """Commit nothing more, and finish."""
    token: str
    token_expires_at: datetime


class RunFailureGiven(Body):
    code: Lease
    message: Filter


class ExportRunFinish(Body):
    lease: Lease
    state: Literal["succeeded", "failed", "cancelled"]
    result: ExportRunResult | None = None
    positions: Annotated[list[ExportLanePosition], Meta(max_length=100_000)] | None = None
    """What the table has now; null where that is not known."""
    failure: RunFailureGiven | None = None
    retry: bool = False
    """Another attempt may succeed."""
    log: Log | None = None


class ExportRunFinished(Answer):
    pass


OPERATIONS = table(
    "exports",
    Operation(
        id="runExport",
        route="POST /exports/{name}:run",
        needs="manage export:name",
        summary="Run an export now",
        description=(
            "Also while it is paused. Runs of one export never overlap: one waits for another. "
            "Needs `read` on the topic, too."
        ),
        body=ExportRunStart,
        body_required=False,
        answers=(
            ok(ExportRun, "The run that waits already, which does the same."),
            Success(201, "The run, which waits for a runner.", ExportRun, (LOCATION,)),
        ),
        problems=(
            CONFLICT,
            RATE_LIMITED,
        ),
    ),
    Operation(
        id="listExportRuns",
        route="GET /exports/{name}/runs",
        needs="read export:name",
        summary="List runs",
        paged=True,
        answers=(ok(ExportRunPage, "One page, the newest first."),),
    ),
    Operation(
        id="getExportRun",
        route="GET /exports/{name}/runs/{run}",
        needs="read export:name",
        summary="Get a run",
        answers=(ok(ExportRun, "The run."),),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="cancelExportRun",
        route="POST /exports/{name}/runs/{run}:cancel",
        needs="manage export:name",
        summary="Cancel a run",
        description="What the run has committed stays; what it has not goes with the next one.",
        answers=(
            ok(
                ExportRun,
                (
                    "The run: cancelled where it waited; where it is under way, its "
                    "runner is told; as it was where it had ended."
                ),
            ),
        ),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="getExportRunLog",
        route="GET /exports/{name}/runs/{run}/log",
        needs="read export:name",
        summary="Get the log of a run",
        answers=(
            ok(
                str,
                "What its runner said of all attempts; of a long one the end.",
                media="text/plain",
            ),
        ),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="claimExportRun",
        route="POST /export_runs:claim",
        needs="run_exports *",
        summary="Claim a run",
        description=(
            "For runners: the oldest run of any tenant that waits for one of those lakes. A "
            "lease that ends hands its run out again. Needs `run_exports`, which operators "
            "have and no tenant can grant."
        ),
        body=ExportRunClaim,
        answers=(ok(ExportRunClaimed, "A run, leased; null where none came in time."),),
    ),
    Operation(
        id="planExportRun",
        route="POST /export_runs/{uid}:plan",
        needs="run_exports *",
        summary="Fix what a run reads",
        description=(
            "For each lane of its topics, from where the table's position or else `start` is, "
            "to the end now; `PACKETBOAT_EXPORT_MAX_RUN_MESSAGES` in all. The ranges of "
            "back-fills and reconciliations are those that were asked for. Needs `run_exports`."
        ),
        body=ExportRunPositions,
        answers=(
            ok(
                ExportRunPlan,
                ("The ranges of the run: asked again with the same positions, the same."),
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="renewExportRun",
        route="POST /export_runs/{uid}:renew",
        needs="run_exports *",
        summary="Renew the lease of a run",
        description="With how far it is, and what it says. Needs `run_exports`.",
        body=ExportRunRenew,
        answers=(ok(ExportRunRenewed, "Until when it is, and whether to stop."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="finishExportRun",
        route="POST /export_runs/{uid}:finish",
        needs="run_exports *",
        summary="Finish a run",
        description=(
            "Moves what is kept for the export to `positions`. A failed run with `retry` waits "
            "for another attempt, if it has any left. Needs `run_exports`."
        ),
        body=ExportRunFinish,
        answers=(
            ok(
                ExportRunFinished,
                ("It is written down. Repeated with the same lease it is answered alike."),
            ),
        ),
        problems=(CONFLICT,),
    ),
)
