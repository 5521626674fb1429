"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec

ExportBody = Literal["json", "avro", "raw"]
ExportFormat = Literal["iceberg", "parquet"]
ExportPartitionBy = Literal["hour", "day", "none"]
ExportMissedRuns = Literal["skip", "latest"]
ExportKind = Literal["export", "backfill", "maintain", "reconcile"]
ExportState = Literal["idle", "queued", "running", "paused"]
ExportRunState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
ExportTrigger = Literal["schedule", "manual", "maintenance"]


class ExportMaintenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `maintain` runs do: files below half of `target_file_bytes` are joined, in partitions
    whose time is over."""

    target_file_bytes: int | None = None
    """128 MiB unless given."""
    keep_snapshots_seconds: int | None = None
    """Older snapshots of the table go; five days unless given."""
    orphans_after_seconds: int | None = None
    """Files that no snapshot names go after so long; a day unless given."""


class ExportChanges(TypedDict, total=False):
    """What of an export may be changed; what is not given stays."""

    columns: Mapping[str, str]
    """Types of body fields that are not to be found out: `string`, `boolean`, `long`, `double`,
    `timestamp`, `date`, `binary`, `decimal(p,s)`."""
    keep_data: bool
    """Keep every body as it came, too, in the column `data`."""
    filter: str | None
    """CEL; what it does not match is not in the table."""
    max_bytes_per_second: int | None
    """What a run may read."""
    cron: str | None
    """When it runs; None: on demand."""
    time_zone: str
    """A name of the IANA time zone database; UTC unless given."""
    missed_runs: ExportMissedRuns
    """What becomes of runs that could not be made in their minute: nothing, or one; `latest` unless
    given."""
    maintain_cron: str | None
    """When the table is tidied; `@daily` unless given."""
    maintenance: ExportMaintenance
    paused: bool
    labels: Mapping[str, str]


class ExportSettings(ExportChanges, total=False):
    """What an export may be made with beside its topic; the rest of these is for good."""

    table: str
    """Its name unless given."""
    lake: str
    """One of those that the installation has; `default` unless given."""
    format: ExportFormat
    """`iceberg`, each message once; or `parquet`, plain files, at least once."""
    body: ExportBody
    """What becomes columns: fields of JSON or Avro bodies, or with `raw` the bytes alone."""
    partition_by: ExportPartitionBy
    """Of publish times; `day` unless given."""
    key_buckets: int
    """Also by the hash of the key, into so many; 0: not."""
    start: str | datetime
    """`earliest`, `latest`, or a moment with a zone."""


class ExportTable(msgspec.Struct, frozen=True):
    """Where a table is: what readers need."""

    identifier: str
    location: str
    metadata_location: str | None = None
    """The file of Iceberg that describes it as it is now."""
    snapshot_id: int | None = None


class ExportPosition(msgspec.Struct, frozen=True):
    """All of a lane of a partition below `offset` is in the table, or was there before the start;
    `end_offset`: one past the last message, None while that cannot be told."""

    topic: str
    topic_uid: str
    partition: int
    lane: int
    offset: int
    end_offset: int | None = None


class ExportRange(msgspec.Struct, frozen=True):
    """The offsets `start` … `end` − 1 of a lane of a partition."""

    topic: str
    topic_uid: str
    partition: int
    lane: int
    start: int
    end: int


class ExportProgress(msgspec.Struct, frozen=True):
    """How far a run is; `rows` and `bytes` were read, of `of_messages` that there are."""

    stage: str = ""
    rows: int = 0
    bytes: int = 0
    of_messages: int = 0


class ExportFailure(msgspec.Struct, frozen=True):
    """Why a run failed; `code` is for programs."""

    code: str
    message: str


class HourDifference(msgspec.Struct, frozen=True):
    """An hour of publish time, from `hour_s` of the epoch on, in which log and table differ."""

    topic: str
    hour_s: int
    log_rows: int
    table_rows: int
    log_digest: str
    table_digest: str


class ExportResult(msgspec.Struct, frozen=True):
    """What a run did. `rows` are in the table, `rejected` in its rejects table, `filtered` in
    neither; `bytes` are of bodies. `already`: the table had it, or a later run: `last_run` is the
    number of its last one."""

    rows: int = 0
    rejected: int = 0
    filtered: int = 0
    bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    removed_files: int = 0
    already: bool = False
    last_run: int = 0
    table: ExportTable | None = None
    rejects: ExportTable | None = None
    new_columns: tuple[str, ...] = ()
    differences: tuple[HourDifference, ...] = ()
    """Of `reconcile` runs; none: the table is what the log is."""


class ExportRun(msgspec.Struct, frozen=True):
    """A run of an export, as it stands."""

    number: int
    export: str
    kind: ExportKind
    state: ExportRunState
    created_at: datetime
    trigger: ExportTrigger = "manual"
    scheduled_for: datetime | None = None
    attempt: int = 0
    max_attempts: int = 0
    ranges: tuple[ExportRange, ...] | None = None
    """What it writes, fixed before it reads anything; None in a listing, and before."""
    progress: ExportProgress | None = None
    result: ExportResult | None = None
    failure: ExportFailure | None = None
    runner: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def finished(self) -> bool:
        """Nothing of it goes on."""
        return self.state in ("succeeded", "failed", "cancelled")

    @property
    def fraction(self) -> float:
        """Of its messages, those that were read; 1.0 once it succeeded."""
        if self.state == "succeeded":
            return 1.0
        if self.progress is None or not self.progress.of_messages:
            return 0.0
        return min(1.0, self.progress.rows / self.progress.of_messages)


class Export(msgspec.Struct, frozen=True):
    """A topic, or those of a pattern, that is written into a table."""

    name: str
    topic: str
    table: str
    created_at: datetime
    updated_at: datetime
    lake: str = "default"
    format: ExportFormat = "iceberg"
    body: ExportBody = "json"
    columns: dict[str, str] = {}
    keep_data: bool = False
    partition_by: ExportPartitionBy = "day"
    key_buckets: int = 0
    filter: str | None = None
    max_bytes_per_second: int | None = None
    maintenance: ExportMaintenance = ExportMaintenance()
    start: str = "earliest"
    cron: str | None = None
    time_zone: str = "UTC"
    missed_runs: str = "latest"
    maintain_cron: str | None = None
    paused: bool = False
    labels: dict[str, str] = {}
    state: ExportState = "idle"
    rows: int = 0
    """In the table, of all runs."""
    rejected: int = 0
    filtered: int = 0
    bytes: int = 0
    expired: int = 0
    """Gone from the log before they were exported: 0 unless the log lost what was kept for it."""
    lag_messages: int | None = None
    """Stored and not in the table yet; in a listing as it was last looked at."""
    positions: tuple[ExportPosition, ...] | None = None
    """How far each lane of its topics is; None in a listing."""
    last_run: ExportRun | None = None
    next_runs: tuple[datetime, ...] = ()
    table_state: ExportTable | None = None
    """None before the first run."""
    rejects_state: ExportTable | None = None
    failure: ExportFailure | None = None
    """Why the last run failed; None again once one succeeds."""
    etag: str | None = None
    """For `if_match`; None in a listing."""
