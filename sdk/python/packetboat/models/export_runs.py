"""What a runner of exports gets and says; the rest of us has `models.exports`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from packetboat.models.exports import (
    ExportBody,
    ExportFormat,
    ExportKind,
    ExportPartitionBy,
)

FinishedState = Literal["succeeded", "failed", "cancelled"]


class LaneKey(msgspec.Struct, frozen=True, order=True):
    """A lane of a partition of a topic: a sequence of offsets. `topic_uid` tells a topic from a
    namesake that was made after its deletion."""

    topic: str
    topic_uid: str
    partition: int
    lane: int


class LanePosition(msgspec.Struct, frozen=True, order=True):
    """All below `offset` is in the table."""

    key: LaneKey
    offset: int


class LaneRange(msgspec.Struct, frozen=True, order=True):
    """The offsets `start` … `end` − 1. `position` is the table's, where it is below `start`: what
    lies between is not to be in it, or is gone from the log."""

    key: LaneKey
    start: int
    end: int
    position: int | None = None


class SpecMaintenance(msgspec.Struct, frozen=True):
    """What a `maintain` run does, all of it said."""

    target_file_bytes: int
    keep_snapshots_s: int
    orphans_after_s: int


class ExportSpec(msgspec.Struct, frozen=True):
    """What a run has to know of its export."""

    name: str
    topic: str
    table: str
    lake: str
    format: ExportFormat
    body: ExportBody
    columns: dict[str, str]
    keep_data: bool
    partition_by: ExportPartitionBy
    key_buckets: int
    filter: str | None
    max_bytes_per_second: int | None
    maintenance: SpecMaintenance


class ClaimedExportRun(msgspec.Struct, frozen=True):
    """A leased run: renew it before its lease ends or another runner gets it. `token` reads the
    topics of the export and nothing else."""

    uid: str
    lease: str
    lease_until: datetime
    tenant: str
    export: ExportSpec
    number: int
    kind: ExportKind
    attempt: int
    token: str
    token_expires_at: datetime
    ranges: tuple[LaneRange, ...] | None = None
    """What it writes, if that is fixed already."""


class ExportLease(msgspec.Struct, frozen=True):
    """Of a renewal. `cancelled`: nothing more of the run is to be committed."""

    lease_until: datetime
    cancelled: bool
    token: str
    token_expires_at: datetime
