# Generated from openapi/: `make generate`. Do not edit.
"""Runs of exports as their runners see them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from packetboat.models.exports import ExportBody, ExportFormat, ExportKind, ExportPartitionBy

FinishedState = Literal["succeeded", "failed", "cancelled"]


class LaneKey(msgspec.Struct, frozen=True, order=True):
    """A lane of a partition of a topic: one sequence of offsets."""

    topic: str
    """The name of the topic."""
    topic_uid: str
    """The id that tells a topic from a later one of the same name."""
    partition: int
    """The number of the partition, from 0."""
    lane: int
    """The priority; 0 of a topic without priorities."""


class LanePosition(msgspec.Struct, frozen=True, order=True):
    """The offset of a lane below which every message is in the table."""

    key: LaneKey
    """The lane."""
    offset: int
    """The offset below which every message is in the table."""


class LaneRange(msgspec.Struct, frozen=True, order=True):
    """The offsets `start` to `end` - 1 of a lane. `position` is that of the table, where it is
    below `start`: messages between the two are not to be exported, or are gone from the log."""

    key: LaneKey
    """The lane."""
    start: int
    """The first offset to read."""
    end: int
    """One past the last offset to read."""
    position: int | None = None
    """The position of the table, where it is below `start`."""


class SpecMaintenance(msgspec.Struct, frozen=True):
    """The rules of runs that maintain the table."""

    target_file_bytes: int
    """The size of the files that small ones are joined into."""
    keep_snapshots_s: int
    """Seconds after which snapshots of the table are removed."""
    orphans_after_s: int
    """Seconds after which files that belong to no snapshot are removed."""


class ExportSpec(msgspec.Struct, frozen=True):
    """An export as a run of it needs it."""

    name: str
    """The name of the export; that of the path, if it is given."""
    topic: str
    """A topic, or a pattern: `*` stands for any characters, also of topics that are created
    later."""
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
    columns: dict[str, str]
    """Types of body fields that are given rather than found out: string, boolean, long, double,
    timestamp, date, binary, decimal(p,s)."""
    keep_data: bool
    """Whether the table also has the bodies as they were published."""
    filter: str | None
    """A CEL expression; messages that it does not match are not exported."""
    max_bytes_per_second: int | None
    """The limit of bytes that runs read."""
    maintenance: SpecMaintenance
    """The rules of runs that maintain the table."""


class ClaimedExportRun(msgspec.Struct, frozen=True):
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
    number: int
    """The number of the run, which grows over the runs of an export."""
    kind: ExportKind
    """The kind of work."""
    attempt: int
    """The number of this attempt, from 1."""
    token: str
    """A token that reads the topics of the export and nothing else."""
    token_expires_at: datetime
    """The time at which the token ends; each renewal brings a new one."""
    ranges: tuple[LaneRange, ...] | None = None
    """The messages to read, if they are fixed already."""


class ExportLease(msgspec.Struct, frozen=True):
    """The lease of a run, and a new token."""

    lease_until: datetime
    """The time at which the lease ends, unless it is renewed again."""
    cancelled: bool
    """Whether the runner is to commit nothing more, and to finish the run."""
    token: str
    """A new token in place of the one before."""
    token_expires_at: datetime
    """The time at which the token ends."""
