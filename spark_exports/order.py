"""The messages between a runner and its driver: a JSON object per line, over the driver's stdin and
stdout.

    runner → driver   Order, then Ranges for each Opened, then Cancel at most once
    driver → runner   Opened (the table's positions), Progress, then one of Done and Failed

A driver never holds the runner's credential: it asks for its ranges by `Opened`, and reads topics
with a token of the run, which reads these topics and nothing else. Values that the API has too are
those of the SDK.
"""

from __future__ import annotations

import msgspec
from packetboat.models.export_runs import ExportSpec, LanePosition, LaneRange
from packetboat.models.exports import ExportKind, ExportProgress, ExportResult


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
    kind: ExportKind
    export: ExportSpec
    lake: LakeSettings
    url: str
    token: str
    state_dir: str
    ranges: list[LaneRange] | None = None


class Ranges(msgspec.Struct, frozen=True, tag="ranges"):
    """The manifest of the run, which is fixed before anything is read."""

    ranges: list[LaneRange]


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The order to commit nothing more."""


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The positions of the table; the runner answers with Ranges."""

    positions: list[LanePosition]


class Progress(ExportProgress, frozen=True, tag="progress"):
    """The progress of a run."""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The answer of a run that is done; `positions` are the table's."""

    result: ExportResult
    positions: list[LanePosition]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The answer of a run that failed; `code` is for programs.

    `retry` says that another attempt may succeed.
    """

    code: str
    message: str
    retry: bool


FromRunner = Order | Ranges | Cancel
FromDriver = Opened | Progress | Done | Failed
