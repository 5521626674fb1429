"""What the operations of exports take."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.cron_plan import MAX_CRON_CHARS

MAX_COLUMNS = 1000
MAX_FILTER_CHARS = 4096
MAX_BYTES_PER_SECOND = 10**12
MAX_KEY_BUCKETS = 1024
MAX_OFFSET = 2**53
MAX_PARTITION = 2**31 - 1
MIB, DAY_S = 1024 * 1024, 86_400
TABLE_PATTERN = r"[a-z][a-z0-9_]{0,62}"

Format = Literal["iceberg", "parquet"]
BodyForm = Literal["json", "avro", "raw"]
PartitionBy = Literal["hour", "day", "none"]
MissedRuns = Literal["skip", "latest"]
Kind = Literal["export", "backfill", "maintain", "reconcile"]
TopicPattern = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Lake = Annotated[str, msgspec.Meta(max_length=128)]
Table = Annotated[str, msgspec.Meta(pattern=rf"^{TABLE_PATTERN}\Z")]
KeyBuckets = Annotated[int, msgspec.Meta(ge=0, le=MAX_KEY_BUCKETS)]
Start = Annotated[str, msgspec.Meta(max_length=64)]
Columns = Annotated[dict[str, str], msgspec.Meta(max_length=MAX_COLUMNS)]
Filter = Annotated[str, msgspec.Meta(max_length=MAX_FILTER_CHARS)]
BytesPerSecond = Annotated[int, msgspec.Meta(ge=1, le=MAX_BYTES_PER_SECOND)]
Cron = Annotated[str, msgspec.Meta(max_length=MAX_CRON_CHARS)]
TimeZone = Annotated[str, msgspec.Meta(max_length=100)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]


class Maintenance(msgspec.Struct, forbid_unknown_fields=True):
    """What runs of the kind `maintain` do."""

    target_file_bytes: Annotated[int, msgspec.Meta(ge=MIB, le=2048 * MIB)] = 128 * MIB
    keep_snapshots_seconds: Annotated[int, msgspec.Meta(ge=60, le=3650 * DAY_S)] = 5 * DAY_S
    orphans_after_seconds: Annotated[int, msgspec.Meta(ge=3600, le=365 * DAY_S)] = DAY_S


class ExportPut(msgspec.Struct, forbid_unknown_fields=True):
    """What `PUT /exports/{name}` takes: all of an export."""

    topic: TopicPattern
    name: str | UnsetType = UNSET
    start: Start = "earliest"
    lake: Lake = "default"
    table: Table | UnsetType = UNSET
    format: Format = "iceberg"
    body: BodyForm = "json"
    partition_by: PartitionBy = "day"
    key_buckets: KeyBuckets = 0
    columns: Columns = {}
    keep_data: bool = False
    filter: Filter | None = None
    max_bytes_per_second: BytesPerSecond | None = None
    maintenance: Maintenance = msgspec.field(default_factory=Maintenance)
    cron: Cron | None = None
    time_zone: TimeZone = "UTC"
    missed_runs: MissedRuns = "latest"
    maintain_cron: Cron | UnsetType | None = UNSET
    paused: bool = False
    labels: dict[str, str] = {}


class ExportCreate(ExportPut, forbid_unknown_fields=True, kw_only=True):
    """What `POST /exports` takes."""

    name: str


class ExportPatch(msgspec.Struct, forbid_unknown_fields=True):
    """What `PATCH /exports/{name}` takes, merged into the export (`specs.patched`)."""

    name: str | UnsetType = UNSET
    topic: TopicPattern | UnsetType = UNSET
    start: Start | UnsetType = UNSET
    lake: Lake | UnsetType = UNSET
    table: Table | UnsetType = UNSET
    format: Format | UnsetType = UNSET
    body: BodyForm | UnsetType = UNSET
    partition_by: PartitionBy | UnsetType = UNSET
    key_buckets: KeyBuckets | UnsetType = UNSET
    columns: Columns | UnsetType = UNSET
    keep_data: bool | UnsetType = UNSET
    filter: Filter | UnsetType | None = UNSET
    max_bytes_per_second: BytesPerSecond | UnsetType | None = UNSET
    maintenance: Maintenance | UnsetType = UNSET
    cron: Cron | UnsetType | None = UNSET
    time_zone: TimeZone | UnsetType = UNSET
    missed_runs: MissedRuns | UnsetType = UNSET
    maintain_cron: Cron | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET


class RunStart(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /exports/{name}:run` takes."""

    kind: Kind = "export"
    from_time: str | None = None
    to_time: str | None = None
    from_offset: Offset | None = None
    to_offset: Offset | None = None
    topic: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    partition: Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITION)] | None = None
