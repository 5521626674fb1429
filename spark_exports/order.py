"""The messages between a runner and its driver: a JSON object per line, over the driver's stdin and
stdout.

    runner → driver   Order, then Ranges for each Opened, then Cancel at most once
    driver → runner   Opened (the table's positions), Progress, then one of Done and Failed

A driver never holds the runner's credential: it asks for its ranges by `Opened`, and reads topics
with a token of the run, which reads these topics and nothing else. Values that the API has too are
those of the SDK.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from packetboat.models.export_runs import LaneKey as LaneKey
from packetboat.models.export_runs import LanePosition, LaneRange
from packetboat.models.exports import ExportTable, HourDifference

RunKind = Literal["export", "backfill", "maintain", "reconcile"]
BodyForm = Literal["json", "avro", "raw"]
TableFormat = Literal["iceberg", "parquet"]
PartitionBy = Literal["hour", "day", "none"]

Position = LanePosition
Range = LaneRange
TableState = ExportTable


class Maintenance(msgspec.Struct, frozen=True):
    """The settings of a `maintain` run.

    Files below half of `target_file_bytes` are joined, in partitions whose time is over.
    """

    target_file_bytes: int = 128 * 1024 * 1024
    keep_snapshots_s: int = 5 * 86_400
    orphans_after_s: int = 86_400


class ExportSpec(msgspec.Struct, frozen=True):
    """An export as the API shows it, without its state.

    `columns` has the types of body fields that are configured instead of found: `string`,
    `boolean`, `long`, `double`, `timestamp`, `date`, `binary`, `decimal(p,s)`. `filter` is CEL.
    """

    name: str
    topic: str
    table: str
    lake: str = "default"
    format: TableFormat = "iceberg"
    body: BodyForm = "json"
    columns: dict[str, str] = {}
    keep_data: bool = False
    partition_by: PartitionBy = "day"
    key_buckets: int = 0
    filter: str | None = None
    max_bytes_per_second: int | None = None
    maintenance: Maintenance = Maintenance()


class LakeSettings(msgspec.Struct, frozen=True):
    """A lake, as operators configure it for runners.

    `warehouse` is a path or an `s3://` URL. `catalog` and `storage` are PyIceberg's properties
    (`type`, `uri`, `s3.endpoint`, …).
    """

    name: str
    warehouse: str
    catalog: dict[str, str]
    storage: dict[str, str] = {}
    spark_master: str = "local[*]"
    spark_conf: dict[str, str] = {}


class Order(msgspec.Struct, frozen=True, tag="order"):
    """The order to do a run; `number` grows over the runs of an export.

    `state_dir` is for the driver's own files, and is deleted after it. `ranges` is there if the run
    was planned before this attempt, and for `backfill` and `reconcile`.
    """

    tenant: str
    number: int
    attempt: int
    kind: RunKind
    export: ExportSpec
    lake: LakeSettings
    url: str
    token: str
    state_dir: str
    ranges: list[Range] | None = None


class Ranges(msgspec.Struct, frozen=True, tag="ranges"):
    """The manifest of the run, which is fixed before anything is read."""

    ranges: list[Range]


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The order to commit nothing more."""


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The positions of the table; the runner answers with Ranges."""

    positions: list[Position]


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The progress of a run; `rows` and `bytes` are of messages read so far.

    `of_messages` is the size of the manifest.
    """

    stage: str
    rows: int = 0
    bytes: int = 0
    of_messages: int = 0


class Result(msgspec.Struct, frozen=True):
    """The result of a run; `bytes` are of bodies.

    `rows` are in the table, `rejected` in its rejects table, `filtered` in neither. `already` says
    that the table had the run or a later one, and `last_run` is the number of its last run.
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
    new_columns: list[str] = []
    differences: list[HourDifference] = []


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The answer of a run that is done; `positions` are the table's."""

    result: Result
    positions: list[Position]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The answer of a run that failed; `code` is for programs.

    `retry` says that another attempt may succeed.
    """

    code: str
    message: str
    retry: bool


FromRunner = Order | Ranges | Cancel
FromDriver = Opened | Progress | Done | Failed
