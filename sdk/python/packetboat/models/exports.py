# Generated from openapi/: `make generate`. Do not edit.
"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from packetboat.models.data import Running

ExportBody = Literal["json", "avro", "raw"]
ExportFormat = Literal["iceberg", "parquet"]
ExportPartitionBy = Literal["hour", "day", "none"]
ExportMissedRuns = Literal["skip", "latest"]
ExportKind = Literal["export", "backfill", "maintain", "reconcile"]
ExportState = Literal["idle", "queued", "running", "paused"]
ExportRunState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
ExportTrigger = Literal["schedule", "manual", "maintenance"]


class ExportMaintenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules of runs that maintain the table."""

    target_file_bytes: int | None = None
    """Files below half of this size are joined, in partitions whose time is over."""
    keep_snapshots_seconds: int | None = None
    """The age after which snapshots of the table are removed."""
    orphans_after_seconds: int | None = None
    """The age after which files that belong to no snapshot are removed."""


class ExportChanges(TypedDict, total=False):
    """Fields of an export that may be changed; the others stay."""

    columns: Mapping[str, str]
    """Types of body fields that are given rather than found out: string, boolean, long, double,
    timestamp, date, binary, decimal(p,s)."""
    keep_data: bool
    """Whether the table also has the bodies as they were published."""
    filter: str | None
    """A CEL expression; messages that it does not match are not exported."""
    max_bytes_per_second: int | None
    """The limit of bytes that runs read."""
    maintenance: ExportMaintenance
    """The rules of runs that maintain the table; each field of them has a default."""
    cron: str | None
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. None: it runs on demand."""
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: ExportMissedRuns
    """The rule for runs that could not be made in their minute: none is made, or one for all of
    them. The next run exports their messages in either case."""
    maintain_cron: str | None
    """The times at which the table is maintained. None: on demand. Left out: `@daily` of the format
    iceberg, and None of others, which have nothing to maintain."""
    paused: bool
    """Whether the clock makes no runs of it."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""


class ExportSettings(ExportChanges, total=False):
    """Fields of a new export; the others get the server's defaults."""

    lake: str
    """A lake of the installation."""
    table: str
    """The name of the table in the lake, among those of this tenant. Left out, it is the name of
    the export in small letters, with `_` for other characters than letters and digits."""
    format: ExportFormat
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: ExportBody
    """The form of the bodies, from which columns are made."""
    partition_by: ExportPartitionBy
    """The part of the publish time by which the table is partitioned."""
    key_buckets: int
    """The number of buckets of keys by which the table is partitioned too; 0 is none."""
    start: str | datetime
    """`earliest`, `latest` or a time (RFC 3339): messages that were published before are not
    exported."""


class ExportTable(msgspec.Struct, frozen=True):
    """The place of a table, for readers."""

    identifier: str
    """The namespace and the name in the catalog."""
    location: str
    """The place of its files."""
    metadata_location: str | None = None
    """The file that describes its present state."""
    snapshot_id: int | None = None
    """The number of its present version."""


class ExportPosition(msgspec.Struct, frozen=True):
    """The position of an export in a lane of its topics."""

    topic: str
    """The name of the topic."""
    topic_uid: str
    """The id that tells a topic from a later one of the same name."""
    partition: int
    """The number of the partition, from 0."""
    lane: int
    """The priority; 0 of a topic without priorities."""
    offset: int
    """The offset below which every message is exported, or was published before `start`."""
    end_offset: int | None = None
    """One past the last message; None where it is not known now."""


class ExportRange(msgspec.Struct, frozen=True):
    """The offsets `start` to `end` - 1 of a lane."""

    topic: str
    """The name of the topic."""
    topic_uid: str
    """The id that tells a topic from a later one of the same name."""
    partition: int
    """The number of the partition, from 0."""
    lane: int
    """The priority; 0 of a topic without priorities."""
    start: int
    """The first offset."""
    end: int
    """One past the last offset."""


class ExportProgress(msgspec.Struct, frozen=True):
    """The progress of a run."""

    stage: str
    """The part of the work that goes on, in a word."""
    rows: int = 0
    """The number of messages that were read."""
    bytes: int = 0
    """The size of the bodies that were read."""
    of_messages: int = 0
    """The number of messages of the whole run."""


class ExportFailure(msgspec.Struct, frozen=True):
    """The reason that a run failed."""

    code: str
    """A word for programs."""
    message: str
    """A sentence for people."""


class HourDifference(msgspec.Struct, frozen=True):
    """An hour of a topic, by publish time, in which log and table differ."""

    topic: str
    """The name of the topic."""
    hour_s: int
    """The beginning of the hour, in seconds since 1970."""
    log_rows: int
    """The number of messages in the log."""
    table_rows: int
    """The number of rows in the table."""
    log_digest: str
    """A digest of the messages in the log, which tells whether they are the same."""
    table_digest: str
    """A digest of the rows in the table, to compare with that of the log."""


class ExportResult(msgspec.Struct, frozen=True):
    """The result of a run."""

    rows: int = 0
    """The number of messages that are in the table."""
    rejected: int = 0
    """The number of messages that are in the table of rejects."""
    filtered: int = 0
    """The number of messages that do not match the filter, and are in neither table."""
    bytes: int = 0
    """The size of the bodies."""
    files: int = 0
    """The number of files that were written."""
    file_bytes: int = 0
    """The size of the files that were written."""
    removed_files: int = 0
    """The number of files that were removed, of a run that maintains."""
    already: bool = False
    """Whether the table had the run already, by an earlier attempt, or had a later run."""
    last_run: int = 0
    """The number of the last run in the table, where the table had this run already."""
    table: ExportTable | None = None
    """The place of the table after the run; None where it was not written."""
    rejects: ExportTable | None = None
    """The table of messages that could not be decoded."""
    new_columns: tuple[str, ...] = ()
    """The columns that the run added to the table."""
    differences: tuple[HourDifference, ...] = ()
    """The hours in which log and table differ, of a run that reconciles."""


class ExportRun(Running, msgspec.Struct, frozen=True):
    """A run of an export."""

    number: int
    """Grows over the runs of an export."""
    export: str
    """The name of the export."""
    kind: ExportKind
    """The kind of work, as a request for a run names it."""
    state: ExportRunState
    """The state of the run; `queued` waits for a runner."""
    created_at: datetime
    """The time at which it was created."""
    trigger: ExportTrigger = "manual"
    """The cause of the run."""
    scheduled_for: datetime | None = None
    """The time for which the clock planned it; None of other runs."""
    attempt: int = 0
    """The number of attempts so far."""
    max_attempts: int = 0
    """The number of attempts after which the run fails."""
    ranges: tuple[ExportRange, ...] | None = None
    """The messages that it reads, once they are fixed; None in listings."""
    progress: ExportProgress | None = None
    """The progress of the present attempt; None before its first report."""
    result: ExportResult | None = None
    """The result; None before it succeeded."""
    failure: ExportFailure | None = None
    """The reason that its last attempt failed."""
    runner: str | None = None
    """The runner that has it, or had it last."""
    started_at: datetime | None = None
    """The time at which its first attempt began; None before."""
    finished_at: datetime | None = None
    """The time at which it ended; None before."""


class Export(msgspec.Struct, frozen=True):
    """A topic, or those of a pattern, that are written into a table."""

    name: str
    """The name of the export; that of the path, if it is given."""
    topic: str
    """A topic, or a pattern: `*` stands for any characters, also of topics that are created
    later."""
    table: str
    """The name of the table in the lake, among those of this tenant. Left out, it is the name of
    the export in small letters, with `_` for other characters than letters and digits."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    lake: str = "default"
    """A lake of the installation."""
    format: ExportFormat = "iceberg"
    """`parquet`: plain files without a table's snapshots, each message at least once."""
    body: ExportBody = "json"
    """The form of the bodies, from which columns are made."""
    partition_by: ExportPartitionBy = "day"
    """The part of the publish time by which the table is partitioned."""
    key_buckets: int = 0
    """The number of buckets of keys by which the table is partitioned too; 0 is none."""
    columns: dict[str, str] = {}
    """Types of body fields that are given rather than found out: string, boolean, long, double,
    timestamp, date, binary, decimal(p,s)."""
    keep_data: bool = False
    """Whether the table also has the bodies as they were published."""
    filter: str | None = None
    """A CEL expression; messages that it does not match are not exported."""
    max_bytes_per_second: int | None = None
    """The limit of bytes that runs read."""
    start: str = "earliest"
    """`earliest`, `latest` or a time (RFC 3339): messages that were published before are not
    exported."""
    maintenance: ExportMaintenance = ExportMaintenance()
    """The rules of runs that maintain the table; each field of them has a default."""
    cron: str | None = None
    """Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly,
    @yearly. None: it runs on demand."""
    time_zone: str = "UTC"
    """A name of the IANA time zone database."""
    missed_runs: str = "latest"
    """The rule for runs that could not be made in their minute: none is made, or one for all of
    them. The next run exports their messages in either case."""
    maintain_cron: str | None = None
    """The times at which the table is maintained. None: on demand."""
    paused: bool = False
    """Whether the clock makes no runs of it."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    state: ExportState = "idle"
    """The present state of the export and its runs."""
    next_runs: tuple[datetime, ...] = ()
    """The next runs of the clock."""
    rows: int = 0
    """The number of messages that all runs wrote into the table."""
    rejected: int = 0
    """The number of messages in the table of rejects."""
    filtered: int = 0
    """The number of messages that did not match the filter."""
    bytes: int = 0
    """The size of the bodies."""
    expired: int = 0
    """Messages that were gone from the log before they were exported; 0 unless the log lost
    messages that it kept for the export."""
    lag_messages: int | None = None
    """The number of stored messages that are not exported yet; in listings, and where the store
    does not answer, the number when it was last read."""
    positions: tuple[ExportPosition, ...] | None = None
    """The position in each lane of its topics; None in listings."""
    last_run: ExportRun | None = None
    """The last run; None before the first."""
    table_state: ExportTable | None = None
    """The place of the table, for readers; None before its first run."""
    rejects_state: ExportTable | None = None
    """The table of messages that could not be decoded; None where there is none."""
    failure: ExportFailure | None = None
    """The reason that the last run of the clock or of a caller failed, until one succeeds."""
    etag: str | None = None
    """For `if_match`; None in a listing."""
