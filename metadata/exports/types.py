"""The values of the store of exports: exports, their runs and leases.

A lane is one sequence of offsets: a partition of a topic, in one priority. Its position is the
offset below which all is in the table. The position in the table itself decides (docs/internals.md,
exports); the copy here follows it, for people, for pins, and for tables that keep none.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from openapi.exports import BodyForm, Format, MissedRuns, PartitionBy

EXPORT, BACKFILL, MAINTAIN, RECONCILE = "export", "backfill", "maintain", "reconcile"
"""Kinds of runs. Those of an export come one after the other, whatever their kind."""
QUEUED, RUNNING = "queued", "running"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
LIVE = (QUEUED, RUNNING)
"""The states of a run that is not finished."""
SCHEDULE, MANUAL, MAINTENANCE = "schedule", "manual", "maintenance"
"""The reasons for a run."""
IDLE, PAUSED = "idle", "paused"
"""The states of an export without a live run."""
_BYTES = 16


class BadRunId(ValueError):
    """The id is not one of this platform."""


class RunId(NamedTuple):
    """Names a run among those of all tenants; its text is what runners call it by."""

    tenant_id: bytes
    uid: bytes

    def __str__(self) -> str:
        return urlsafe_b64encode(self.tenant_id + self.uid).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> RunId:
        """Raises BadRunId."""
        try:
            raw = urlsafe_b64decode(text + "=")
        except (binascii.Error, ValueError) as error:
            raise BadRunId(text[:80]) from error
        run_id = cls(raw[:_BYTES], raw[_BYTES:])
        if len(raw) != 2 * _BYTES or str(run_id) != text:
            raise BadRunId(text[:80])
        return run_id


class Lane(NamedTuple):
    """`topic_uid` tells a topic from a namesake that was made after its deletion."""

    topic: str
    topic_uid: bytes
    partition: int
    lane: int


class LanePosition(NamedTuple):
    """All below `offset` is in the table, or is not to be in it."""

    lane: Lane
    offset: int


class LaneEnd(NamedTuple):
    """`end` is the offset of the message that comes next."""

    lane: Lane
    end: int


class LaneRange(NamedTuple):
    """The offsets `start` … `end` − 1. `position` is the table's, where it is below `start`: what
    lies between is not to be in it, or is gone from the log."""

    lane: Lane
    start: int
    end: int
    position: int | None = None


class LaneState(NamedTuple):
    """The progress of an export in a lane.

    `end` is as of the last look, None before the first.
    """

    lane: Lane
    offset: int
    end: int | None


class Failure(NamedTuple):
    """`code` is for programs, `message` for people."""

    code: str
    message: str


class TableState(msgspec.Struct, frozen=True):
    """The location of a table after a run, for readers."""

    identifier: str
    location: str
    metadata_location: str | None = None
    snapshot_id: int | None = None


class HourDifference(msgspec.Struct, frozen=True):
    """An hour (of publish time, the epoch's seconds) of a topic in which log and table differ."""

    topic: str
    hour_s: int
    log_rows: int
    table_rows: int
    log_digest: str
    table_digest: str


class RunProgress(msgspec.Struct, frozen=True):
    """The progress of a run at work:

    `rows` and `bytes` of messages read so far, `of_messages` in all.
    """

    stage: str
    rows: int = 0
    bytes: int = 0
    of_messages: int = 0


class RunResult(msgspec.Struct, frozen=True):
    """The result of a run.

    `rows` are in the table, `rejected` in its rejects table, `filtered` in neither; `bytes` are
    those of bodies. `already`: the table had this run, or a later one, and `last_run` is the number
    of its last one.
    """

    rows: int = 0
    rejected: int = 0
    filtered: int = 0
    bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    removed_files: int = 0
    already: bool = False
    last_run: int = 0
    table: TableState | None = None
    rejects: TableState | None = None
    new_columns: tuple[str, ...] = ()
    differences: tuple[HourDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """The settings that a caller chooses.

    `topic` is a name, or a pattern in which `*` stands for any characters. `start` is "earliest",
    "latest" or a time (RFC 3339), as given. `next_at` and `maintain_next_at` are the first ticks of
    `cron` and `maintain_cron` from now on, or None.
    """

    name: str
    topic: str
    table: str
    lake: str = "default"
    format: Format = "iceberg"
    body: BodyForm = "json"
    columns: Mapping[str, str] = field(default_factory=dict)
    keep_data: bool = False
    partition_by: PartitionBy = "day"
    key_buckets: int = 0
    filter: str | None = None
    max_bytes_per_second: int | None = None
    target_file_bytes: int = 128 * 1024 * 1024
    keep_snapshots_s: int = 5 * 86_400
    orphans_after_s: int = 86_400
    start: str = "earliest"
    cron: str | None = None
    time_zone: str = "UTC"
    missed_runs: MissedRuns = "latest"
    maintain_cron: str | None = "@daily"
    next_at: datetime | None = None
    maintain_next_at: datetime | None = None
    paused: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A run as one statement saw it.

    `attempt` counts from 1, and is 0 before the first. `cancelling`: its holder is told to stop.
    `ready_at`: a queued run is not claimed before this time.
    """

    tenant_id: bytes
    uid: bytes
    export_uid: bytes
    export: str
    number: int
    kind: str
    trigger: str
    state: str
    cancelling: bool
    scheduled_for: datetime | None
    attempt: int
    max_attempts: int
    ranges: tuple[LaneRange, ...] | None
    progress: RunProgress | None
    result: RunResult | None
    failure: Failure | None
    runner: str | None
    ready_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Export:
    """An export as one transaction saw it. `version` is its ETag: it grows with what callers
    change, not with its runs. `rows`, `rejected`, `filtered` and `bytes` are sums over its runs of
    kind `export`; `expired` messages were gone from the log before they were exported. `missed`
    ticks made no run by its policy, `coalesced` ones because a run was queued or running."""

    tenant_id: bytes
    uid: bytes
    spec: ExportSpec
    state: str
    rows: int
    rejected: int
    filtered: int
    bytes: int
    expired: int
    runs: int
    missed: int
    coalesced: int
    positions: tuple[LaneState, ...]
    last_run: Run | None
    table_state: TableState | None
    rejects_state: TableState | None
    failure: Failure | None
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def lag_messages(self) -> int:
        """Return the number of messages between the positions and the ends as of the last look."""
        return sum(max(0, each.end - each.offset) for each in self.positions if each.end)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run as its runner gets it; `tenant` is the tenant's name. `ranges` is the manifest where
    there is one: from an earlier attempt, or of a back-fill or a reconciliation."""

    id: RunId
    lease: bytes
    lease_until: datetime
    tenant: str
    spec: ExportSpec
    number: int
    kind: str
    attempt: int
    ranges: tuple[LaneRange, ...] | None


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run, by its runner.

    `state` is one of succeeded, failed and cancelled. `positions` are those of the table now.
    `retry`: another attempt may succeed.
    """

    state: str
    result: RunResult | None = None
    positions: Sequence[LanePosition] | None = None
    failure: Failure | None = None
    retry: bool = False


def like(pattern: str) -> str:
    """Return the pattern as Postgres' LIKE reads it."""
    return re.sub(r"([\\%_])", r"\\\1", pattern).replace("*", "%")
