"""Exports of topics to tables of a lake."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    ETAG,
    IF_MATCH,
    Count,
    CreatedAt,
    Cron,
    Filter,
    Labels,
    Name,
    NextPageToken,
    TimeZone,
    UpdatedAt,
    created,
)
from openapi.contract import Answer, Body, Operation, Parameter, no_content, ok, table
from openapi.export_runs import ExportLaneKey, ExportRun, LakeTableGiven, RunFailure, TopicPattern
from openapi.patch import patch_of

MIB, DAY_S = 1024 * 1024, 86_400
TABLE_PATTERN = r"[a-z][a-z0-9_]{0,62}"
Start = Annotated[str, Meta(max_length=64)]
Lake = Annotated[str, Meta(max_length=128)]
Table = Annotated[str, Meta(pattern=rf"^{TABLE_PATTERN}\Z")]
Format = Literal["iceberg", "parquet"]
BodyForm = Literal["json", "avro", "raw"]
PartitionBy = Literal["hour", "day", "none"]
KeyBuckets = Annotated[int, Meta(ge=0, le=1024)]
MaxBytesPerSecond = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
MissedRuns = Literal["skip", "latest"]
State = Literal["idle", "queued", "running", "paused"]


class ExportMaintenance(Body):
    """The rules of runs that maintain the table."""

    target_file_bytes: Annotated[int, Meta(ge=MIB, le=2048 * MIB)] = 128 * MIB
    """Files below half of this size are joined, in partitions whose time is over."""
    keep_snapshots_seconds: Annotated[int, Meta(ge=60, le=3650 * DAY_S)] = 5 * DAY_S
    """The age after which snapshots of the table are removed."""
    orphans_after_seconds: Annotated[int, Meta(ge=3600, le=365 * DAY_S)] = DAY_S
    """The age after which files that belong to no snapshot are removed."""


class ExportMaintenanceView(ExportMaintenance, Answer):
    """The rules of runs that maintain the table."""


class ExportShape(Body, kw_only=True):
    """The part of an export that its runs need."""

    FIXED: ClassVar[tuple[str, ...]] = (
        *("name", "topic", "lake", "table"),
        *("format", "body", "partition_by", "key_buckets"),
    )
    name: Name | UnsetType = UNSET
    """The name of the export; that of the path, if it is given."""
    topic: TopicPattern
    """A topic, or a pattern: `*` stands for any characters, also of topics that are created
    later."""
    lake: Lake = "default"
    """A lake of the installation."""
    table: Table | UnsetType = UNSET
    """The name of the table in the lake, among those of this tenant. Left out, it is the name of
    the export in small letters, with `_` for other characters than letters and digits."""
    format: Format = "iceberg"
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: BodyForm = "json"
    """The form of the bodies, from which columns are made."""
    partition_by: PartitionBy = "day"
    """The part of the publish time by which the table is partitioned."""
    key_buckets: KeyBuckets = 0
    """The number of buckets of keys by which the table is partitioned too; 0 is none."""
    columns: Annotated[dict[str, str], Meta(max_length=1000)] = {}
    """Types of body fields that are given rather than found out: string, boolean, long, double,
    timestamp, date, binary, decimal(p,s)."""
    keep_data: bool = False
    """Whether the table also has the bodies as they were published."""
    filter: Filter | None = None
    """A CEL expression; messages that it does not match are not exported."""
    max_bytes_per_second: MaxBytesPerSecond | None = None
    """The limit of bytes that runs read."""


class ExportPut(ExportShape, kw_only=True):
    """The whole export."""

    FIXED = (*ExportShape.FIXED, "start")
    start: Start = "earliest"
    """`earliest`, `latest` or a time (RFC 3339): messages that were published before are not
    exported."""
    maintenance: ExportMaintenance = msgspec.field(default_factory=ExportMaintenance)
    """The rules of runs that maintain the table; each field of them has a default."""
    cron: Cron | None = None
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. Null: it runs on demand."""
    time_zone: TimeZone = "UTC"
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns = "latest"
    """The rule for runs that could not be made in their minute: none is made, or one for all of
    them. The next run exports their messages in either case."""
    maintain_cron: Cron | UnsetType | None = UNSET
    """The times at which the table is maintained. Null: on demand. Left out: `@daily` of the format
    iceberg, and null of others, which have nothing to maintain."""
    paused: bool = False
    """Whether the clock makes no runs of it."""
    labels: Labels = {}


ExportPatch = patch_of(ExportPut)


class ExportCreate(ExportPut, kw_only=True):
    """A request to create an export."""

    name: Name
    """The name of the export, unique in the tenant."""


class ExportPosition(ExportLaneKey, Answer):
    """The position of an export in a lane of its topics."""

    offset: Count
    """The offset below which every message is exported, or was published before `start`."""
    end_offset: Count | None
    """One past the last message; null where it is not known now."""


class LakeTableState(LakeTableGiven, Answer):
    """The place of a table, for readers."""


class Export(ExportPut, Answer, kw_only=True):
    """A topic, or those of a pattern, that are written into a table."""

    maintenance: ExportMaintenanceView
    maintain_cron: Cron | None
    """The times at which the table is maintained. Null: on demand."""
    state: State
    """The present state of the export and its runs."""
    next_runs: Annotated[list[datetime], Meta(max_length=3)]
    """The next runs of the clock."""
    rows: Count
    """The number of messages that all runs wrote into the table."""
    rejected: Count
    """The number of messages in the table of rejects."""
    filtered: Count
    """The number of messages that did not match the filter."""
    bytes: Count
    """The size of the bodies."""
    expired: Count
    """Messages that were gone from the log before they were exported; 0 unless the log lost
    messages that it kept for the export."""
    lag_messages: Count
    """The number of stored messages that are not exported yet; in listings, and where the store
    does not answer, the number when it was last read."""
    positions: list[ExportPosition] | None
    """The position in each lane of its topics; null in listings."""
    last_run: ExportRun | None
    """The last run; null before the first."""
    table_state: LakeTableState | None
    """The place of the table, for readers; null before its first run."""
    rejects_state: LakeTableState | None
    """The table of messages that could not be decoded; null where there is none."""
    failure: RunFailure | None
    """The reason that the last run of the clock or of a caller failed, until one succeeds."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class ExportPage(Answer):
    """One page of exports."""

    exports: list[Export]
    """The exports of this page, by name."""
    next_page_token: NextPageToken


EXPORT_TOPIC = Parameter("export_topic", "topic", "query", "Only exports that take this topic.")

OPERATIONS = table(
    "exports",
    Operation(
        id="listExports",
        route="GET /exports",
        needs="read export:?",
        summary="List exports",
        parameters=(EXPORT_TOPIC,),
        paged=True,
        answers=(ok(ExportPage, "One page, by name; without `positions`."),),
    ),
    Operation(
        id="createExport",
        route="POST /exports",
        needs="manage export:?",
        summary="Create an export",
        description=(
            "Messages that are published to the topic from `start` on are kept for the export "
            "until they are in the table. The caller needs `read` on the topic, or on all that its "
            "pattern may match."
        ),
        body=ExportCreate,
        answers=(created(Export, "The export. Its first run comes with the clock, or on demand."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="getExport",
        route="GET /exports/{name}",
        needs="read export:name",
        summary="Get an export",
        answers=(ok(Export, "The export.", ETAG),),
    ),
    Operation(
        id="putExport",
        route="PUT /exports/{name}",
        needs="manage export:name",
        summary="Create or replace an export",
        description=(
            "`topic`, `start`, `lake`, `table`, `format`, `body`, `partition_by` and "
            "`key_buckets` of an export never change. The caller needs `read` on the topic, too."
        ),
        parameters=(IF_MATCH,),
        body=ExportPut,
        answers=(
            ok(Export, "The export as it is now.", ETAG),
            created(Export, "The export, which was not there."),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="patchExport",
        route="PATCH /exports/{name}",
        needs="manage export:name",
        summary="Change an export",
        description=(
            "A run that is under way goes on with the settings that the export had when the run "
            "was claimed. The caller needs `read` on the topic, too."
        ),
        parameters=(IF_MATCH,),
        body=ExportPatch,
        answers=(ok(Export, "The export as it is now.", ETAG),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="deleteExport",
        route="DELETE /exports/{name}",
        needs="manage export:name",
        summary="Delete an export",
        description=(
            "Messages that were kept for it may be trimmed. A run that is under way is told, and "
            "begins no further commit."
        ),
        parameters=(IF_MATCH,),
        answers=(
            no_content("It is gone, with its runs and their logs. Its table stays as it is."),
        ),
    ),
    Operation(
        id="pauseExport",
        route="POST /exports/{name}:pause",
        needs="manage export:name",
        summary="Pause an export",
        parameters=(IF_MATCH,),
        answers=(
            ok(
                Export,
                (
                    "The export. The clock makes no runs of it until it is resumed; a run that is "
                    "under way goes on, and callers can start runs."
                ),
                ETAG,
            ),
        ),
    ),
    Operation(
        id="resumeExport",
        route="POST /exports/{name}:resume",
        needs="manage export:name",
        summary="Resume an export",
        description="The caller needs `read` on the topic, too.",
        parameters=(IF_MATCH,),
        answers=(
            ok(
                Export,
                "The export, which goes on with its next run; that one exports the messages of the "
                "pause, too.",
                ETAG,
            ),
        ),
    ),
)
