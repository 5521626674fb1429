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
    topic_uid: str
    """The id that tells a topic from a later one of the same name."""
    partition: int
    lane: int
    """The priority; 0 of a topic without priorities."""


class LanePosition(msgspec.Struct, frozen=True, order=True):
    """The offset of a lane below which every message is in the table."""

    key: LaneKey
    offset: int


class LaneRange(msgspec.Struct, frozen=True, order=True):
    """The offsets `start` to `end` - 1 of a lane. `position` is that of the table, where it is
    below `start`: messages between the two are not to be exported, or are gone from the log."""

    key: LaneKey
    start: int
    end: int
    position: int | None = None


class SpecMaintenance(msgspec.Struct, frozen=True):
    """The rules of runs that maintain the table."""

    target_file_bytes: int
    keep_snapshots_s: int
    orphans_after_s: int


class ExportSpec(msgspec.Struct, frozen=True):
    """An export as a run of it needs it."""

    name: str
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


class ClaimedExportRun(msgspec.Struct, frozen=True):
    """A run that is leased to a runner, which renews the lease before it ends."""

    uid: str
    lease: str
    """The secret that shows who has the run."""
    lease_until: datetime
    tenant: str
    """The tenant's name."""
    export: ExportSpec
    number: int
    kind: ExportKind
    attempt: int
    token: str
    """A token that reads the topics of the export and nothing else."""
    token_expires_at: datetime
    ranges: tuple[LaneRange, ...] | None = None
    """The messages to read, if they are fixed already."""


class ExportLease(msgspec.Struct, frozen=True):
    """The lease of a run, and a new token."""

    lease_until: datetime
    cancelled: bool
    """Whether the runner is to commit nothing more, and to finish the run."""
    token: str
    token_expires_at: datetime
