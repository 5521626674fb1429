"""Exports of topics to tables of a lake, and their runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import CONFLICT, ETAG, IF_MATCH, Count, Name, created
from openapi.contract import Answer, Body, Operation, Parameter, no_content, ok, table
from openapi.export_runs import ExportMaintenance, ExportPosition, ExportRun, RunFailure

TopicValue = Annotated[str, Meta(min_length=1, max_length=128)]
Start = Annotated[str, Meta(max_length=64)]
Lake = Annotated[str, Meta(max_length=128)]
TableValue = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,62}\Z")]
Format = Literal["iceberg", "parquet"]
BodyValue = Literal["json", "avro", "raw"]
PartitionBy = Literal["hour", "day", "none"]
KeyBuckets = Annotated[int, Meta(ge=0, le=1024)]
Filter = Annotated[str, Meta(max_length=4096)]
MaxBytesPerSecond = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
Cron = Annotated[str, Meta(max_length=200)]
TimeZone = Annotated[str, Meta(max_length=100)]
MissedRuns = Literal["skip", "latest"]


class LakeTableState(Answer):
    """Where it is, for whoever reads it; null before its first run."""

    identifier: str
    """Namespace and name in the catalog."""
    location: str
    """Where its files are."""
    metadata_location: str | None
    """The file that says what it is now."""
    snapshot_id: int | None
    """Its present version."""


class Export(Answer):
    name: str
    topic: TopicValue
    """A topic, or a pattern: `*` stands for any characters, also of topics that come later."""
    start: Start
    """`earliest`, `latest` or a time (RFC 3339): what was published before is not exported."""
    lake: Lake
    """One of those that the installation has."""
    table: TableValue
    """In the lake, of this tenant; without it the name of the export, in small letters, `_` for
    what does not go."""
    format: Format
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: BodyValue
    """How bodies become columns."""
    partition_by: PartitionBy
    """Of the publish time."""
    key_buckets: KeyBuckets
    """Buckets of keys that the table is partitioned by, too; 0: none."""
    columns: Annotated[dict[str, str], Meta(max_length=1000)]
    """Types of body fields that are not to be found out: string, boolean, long, double, timestamp,
    date, binary, decimal(p,s)."""
    keep_data: bool
    """Keep bodies as they came, too."""
    filter: Filter | None
    """CEL; what it does not match is not exported."""
    max_bytes_per_second: MaxBytesPerSecond | None
    """Most that runs read."""
    maintenance: ExportMaintenance
    cron: Cron | None
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. Null: it runs when it is asked to."""
    time_zone: TimeZone
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns
    """What becomes of runs that could not be made in their minute: none is made, or one for all of
    them. Whichever comes next brings what they would have."""
    maintain_cron: Cron | None
    """When its table is maintained. Null: when it is asked to."""
    paused: bool
    labels: dict[str, str]
    state: Literal["idle", "queued", "running", "paused"]
    """What it does now."""
    next_runs: Annotated[list[datetime], Meta(max_length=3)]
    """When it runs next by the clock."""
    rows: Count
    """In the table, by all runs."""
    rejected: Count
    """In the table of rejects."""
    filtered: Count
    """In neither."""
    bytes: Count
    """Of bodies."""
    expired: Count
    """Messages that were gone from the log before they were exported; 0 unless the log lost what
    was kept for the export."""
    lag_messages: Count
    """Stored and not exported yet; in listings, and where the store does not answer, as it was
    last looked at."""
    positions: list[ExportPosition] | None
    """How far each lane of its topics is exported; null in listings."""
    last_run: ExportRun | None
    table_state: LakeTableState | None
    """Where it is, for whoever reads it; null before its first run."""
    rejects_state: LakeTableState | None
    """The table of what could not be decoded; null where there is none."""
    failure: RunFailure | None
    """Why the last run of the clock or of a caller failed, until one succeeds."""
    created_at: datetime
    updated_at: datetime


class ExportPage(Answer):
    exports: list[Export]
    next_page_token: str | None


class ExportCreate(Body):
    name: Name
    topic: TopicValue
    """A topic, or a pattern: `*` stands for any characters, also of topics that come later."""
    start: Start = "earliest"
    """`earliest`, `latest` or a time (RFC 3339): what was published before is not exported."""
    lake: Lake = "default"
    """One of those that the installation has."""
    table: TableValue | UnsetType = UNSET
    """In the lake, of this tenant; without it the name of the export, in small letters, `_` for
    what does not go."""
    format: Format = "iceberg"
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: BodyValue = "json"
    """How bodies become columns."""
    partition_by: PartitionBy = "day"
    """Of the publish time."""
    key_buckets: KeyBuckets = 0
    """Buckets of keys that the table is partitioned by, too; 0: none."""
    columns: Annotated[dict[str, str], Meta(max_length=1000)] | UnsetType = UNSET
    """Types of body fields that are not to be found out: string, boolean, long, double, timestamp,
    date, binary, decimal(p,s)."""
    keep_data: bool = False
    """Keep bodies as they came, too."""
    filter: Filter | None = None
    """CEL; what it does not match is not exported."""
    max_bytes_per_second: MaxBytesPerSecond | None = None
    """Most that runs read."""
    maintenance: ExportMaintenance | UnsetType = UNSET
    cron: Cron | None = None
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. Null: it runs when it is asked to."""
    time_zone: TimeZone = "UTC"
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns = "latest"
    """What becomes of runs that could not be made in their minute: none is made, or one for all of
    them. Whichever comes next brings what they would have."""
    maintain_cron: Cron | None = "@daily"
    """When its table is maintained. Null: when it is asked to."""
    paused: bool = False
    labels: dict[str, str] | UnsetType = UNSET


class ExportPut(Body):
    topic: TopicValue
    """A topic, or a pattern: `*` stands for any characters, also of topics that come later."""
    name: str | UnsetType = UNSET
    """As in the path."""
    start: Start = "earliest"
    """`earliest`, `latest` or a time (RFC 3339): what was published before is not exported."""
    lake: Lake = "default"
    """One of those that the installation has."""
    table: TableValue | UnsetType = UNSET
    """In the lake, of this tenant; without it the name of the export, in small letters, `_` for
    what does not go."""
    format: Format = "iceberg"
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: BodyValue = "json"
    """How bodies become columns."""
    partition_by: PartitionBy = "day"
    """Of the publish time."""
    key_buckets: KeyBuckets = 0
    """Buckets of keys that the table is partitioned by, too; 0: none."""
    columns: Annotated[dict[str, str], Meta(max_length=1000)] | UnsetType = UNSET
    """Types of body fields that are not to be found out: string, boolean, long, double, timestamp,
    date, binary, decimal(p,s)."""
    keep_data: bool = False
    """Keep bodies as they came, too."""
    filter: Filter | None = None
    """CEL; what it does not match is not exported."""
    max_bytes_per_second: MaxBytesPerSecond | None = None
    """Most that runs read."""
    maintenance: ExportMaintenance | UnsetType = UNSET
    cron: Cron | None = None
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. Null: it runs when it is asked to."""
    time_zone: TimeZone = "UTC"
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns = "latest"
    """What becomes of runs that could not be made in their minute: none is made, or one for all of
    them. Whichever comes next brings what they would have."""
    maintain_cron: Cron | None = "@daily"
    """When its table is maintained. Null: when it is asked to."""
    paused: bool = False
    labels: dict[str, str] | UnsetType = UNSET


class ExportMaintenancePatch(Body):
    """As ExportMaintenance, merged member by member."""

    target_file_bytes: Annotated[int, Meta(ge=1_048_576, le=2_147_483_648)] | UnsetType | None = (
        UNSET
    )
    """Files below half of it are joined, in partitions whose time is over."""
    keep_snapshots_seconds: Annotated[int, Meta(ge=60, le=315_360_000)] | UnsetType | None = UNSET
    """Older snapshots of the table go."""
    orphans_after_seconds: Annotated[int, Meta(ge=3600, le=31_536_000)] | UnsetType | None = UNSET
    """Files that belong to no snapshot go after so long."""


class ExportPatch(Body):
    """Merged into what there is (RFC 7396): what is not named stays, and so does each member of an
    object that is not named. Null is null where a member may be null, and else its default; in
    a map it takes an entry away. Those that never change may be given as they are."""

    name: str | UnsetType = UNSET
    """As it is."""
    topic: TopicValue | UnsetType = UNSET
    """A topic, or a pattern: `*` stands for any characters, also of topics that come later."""
    start: Start | UnsetType | None = UNSET
    """`earliest`, `latest` or a time (RFC 3339): what was published before is not exported."""
    lake: Lake | UnsetType | None = UNSET
    """One of those that the installation has."""
    table: TableValue | UnsetType = UNSET
    """In the lake, of this tenant; without it the name of the export, in small letters, `_` for
    what does not go."""
    format: Format | UnsetType | None = UNSET
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: BodyValue | UnsetType | None = UNSET
    """How bodies become columns."""
    partition_by: PartitionBy | UnsetType | None = UNSET
    """Of the publish time."""
    key_buckets: KeyBuckets | UnsetType | None = UNSET
    """Buckets of keys that the table is partitioned by, too; 0: none."""
    columns: Annotated[dict[str, str | None], Meta(max_length=1000)] | UnsetType | None = UNSET
    """Types of body fields that are not to be found out: string, boolean, long, double, timestamp,
    date, binary, decimal(p,s)."""
    keep_data: bool | UnsetType | None = UNSET
    """Keep bodies as they came, too."""
    filter: Filter | UnsetType | None = UNSET
    """CEL; what it does not match is not exported."""
    max_bytes_per_second: MaxBytesPerSecond | UnsetType | None = UNSET
    """Most that runs read."""
    maintenance: ExportMaintenancePatch | UnsetType | None = UNSET
    cron: Cron | UnsetType | None = UNSET
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. Null: it runs when it is asked to."""
    time_zone: TimeZone | UnsetType | None = UNSET
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns | UnsetType | None = UNSET
    """What becomes of runs that could not be made in their minute: none is made, or one for all of
    them. Whichever comes next brings what they would have."""
    maintain_cron: Cron | UnsetType | None = UNSET
    """When its table is maintained. Null: when it is asked to."""
    paused: bool | UnsetType | None = UNSET
    labels: dict[str, str | None] | UnsetType | None = UNSET


EXPORT_TOPIC = Parameter("export_topic", "topic", "query", "Only those that take this topic.")

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
            "What is published to the topic from `start` on is kept for it until it is in the "
            "table. Needs `read` on the topic, or on all that its pattern may match."
        ),
        body=ExportCreate,
        answers=(
            created(
                Export, ("The export. Its first run comes with the clock, or when it is asked for.")
            ),
        ),
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
            "`key_buckets` of an export never change. Needs `read` on the topic, too."
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
            "A run that is under way goes on by what the export was when it was claimed. Needs "
            "`read` on the topic, too."
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
            "What was kept for it may be trimmed. A run that is under way is told, and commits "
            "nothing more that it has not begun to commit."
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
                    "The clock makes no runs of it until it is resumed; one that is "
                    "under way goes on, and runs can be asked for."
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
        description="Needs `read` on the topic, too.",
        parameters=(IF_MATCH,),
        answers=(
            ok(
                Export,
                ("It goes on with its next run, which brings what came meanwhile, too."),
                ETAG,
            ),
        ),
    ),
)
