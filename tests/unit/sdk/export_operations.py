"""Operations of exports, asked for through the SDK: as little as they need, and all they take."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from packetboat.models.export_runs import LaneKey, LanePosition
from packetboat.models.exports import (
    ExportFailure,
    ExportMaintenance,
    ExportProgress,
    ExportResult,
    ExportTable,
    HourDifference,
)

NOW = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
PAGE = {"page_size": 5, "page_token": "t"}
TAG = {"if_match": '"1"'}
CHANGES = {
    "columns": {"amount": "decimal(10,2)"},
    "keep_data": True,
    "filter": "true",
    "max_bytes_per_second": 1_000_000,
    "maintenance": ExportMaintenance(
        target_file_bytes=1 << 20, keep_snapshots_seconds=60, orphans_after_seconds=3600
    ),
    "cron": "@hourly",
    "time_zone": "Europe/Zurich",
    "missed_runs": "latest",
    "maintain_cron": None,
    "paused": True,
    "labels": {"a": "b"},
}
FOR_GOOD = {
    "table": "t",
    "lake": "default",
    "format": "parquet",
    "body": "avro",
    "partition_by": "hour",
    "key_buckets": 4,
    "start": NOW,
}
POSITIONS = [LanePosition(LaneKey("a", "0" * 32, 0, 0), 5)]
TABLE = ExportTable("a.b", "/lake/a/b", "/lake/a/b/metadata/1.json", 7)
RESULT = ExportResult(
    rows=1,
    table=TABLE,
    rejects=TABLE,
    new_columns=("a",),
    differences=(HourDifference("a", 3600, 1, 2, "x", "y"),),
)
FAILURE = ExportFailure("code", "message")
FIXED = frozenset(FOR_GOOD)
"""Members that a change may repeat and cannot change."""

EXPORTS: dict[str, tuple[Callable[[Any], object], ...]] = {
    "listExports": (
        lambda r: r.exports.list(),
        lambda r: r.exports.page(topic="a", **PAGE),
    ),
    "createExport": (
        lambda r: r.exports.create("n", "a"),
        lambda r: r.exports.create("n", "a-*", **CHANGES, **FOR_GOOD),
    ),
    "getExport": (lambda r: r.exports.get("n"),),
    "putExport": (
        lambda r: r.exports.put("n", "a", **TAG),
        lambda r: r.exports.put("n", "a", **CHANGES, **FOR_GOOD),
    ),
    "patchExport": (
        lambda r: r.exports.update("n", paused=True),
        lambda r: r.exports.update("n", **CHANGES, **TAG),
    ),
    "deleteExport": (
        lambda r: r.exports.delete("n"),
        lambda r: r.exports.delete("n", **TAG),
    ),
    "pauseExport": (lambda r: r.exports.pause("n", **TAG),),
    "resumeExport": (lambda r: r.exports.resume("n", **TAG),),
    "runExport": (
        lambda r: r.exports.run("n"),
        lambda r: r.exports.run("n", kind="backfill", from_time=NOW, to_time=NOW),
        lambda r: r.exports.run(
            "n", kind="reconcile", from_offset=1, to_offset=2, topic="a", partition=3
        ),
    ),
    "listExportRuns": (
        lambda r: r.exports.runs("n"),
        lambda r: r.exports.runs_page("n", **PAGE),
    ),
    "getExportRun": (
        lambda r: r.exports.get_run("n", 1),
        lambda r: r.exports.handle("n", 1).wait(),
    ),
    "cancelExportRun": (
        lambda r: r.exports.cancel_run("n", 1),
        lambda r: r.exports.handle("n", 1).cancel(),
    ),
    "getExportRunLog": (
        lambda r: r.exports.log("n", 1),
        lambda r: r.exports.handle("n", 1).log(),
    ),
    "claimExportRun": (
        lambda r: r.export_runs.claim("me", ["default"]),
        lambda r: r.export_runs.claim("me", ["a", "b"], lease_seconds=5, wait_seconds=5),
    ),
    "planExportRun": (lambda r: r.export_runs.plan("u", "l", POSITIONS),),
    "renewExportRun": (
        lambda r: r.export_runs.renew("u", "l"),
        lambda r: r.export_runs.renew(
            "u", "l", lease_seconds=5, progress=ExportProgress("reading", 1, 2, 3), log="line\n"
        ),
    ),
    "finishExportRun": (
        lambda r: r.export_runs.finish("u", "l", "succeeded"),
        lambda r: r.export_runs.finish(
            "u", "l", "failed", result=RESULT, positions=POSITIONS, failure=FAILURE, retry=True
        ),
        lambda r: r.export_runs.finish("u", "l", "cancelled", log="line\n"),
    ),
}
