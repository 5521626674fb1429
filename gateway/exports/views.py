"""Exports and their runs as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from gateway.exports.lanes import lane_view
from metadata.exports.types import Export, ExportSpec, Failure, LaneRange, LaneState, Run
from scheduler.cron_plan import runs_after

SHOWN_TICKS = 3


def export_view(
    export: Export, now: datetime, lanes: Sequence[LaneState] | None = None
) -> dict[str, Any]:
    """`lanes`: as they are now; without them it is an item of a listing."""
    spec = export.spec
    return {
        "name": spec.name,
        "topic": spec.topic,
        "start": spec.start,
        **_table_of(spec),
        **_choices_of(spec),
        "state": export.state,
        "next_runs": _next_runs(spec, now),
        "rows": export.rows,
        "rejected": export.rejected,
        "filtered": export.filtered,
        "bytes": export.bytes,
        "expired": export.expired,
        "lag_messages": export.lag_messages if lanes is None else lag_of(lanes),
        "positions": None if lanes is None else [_position(each) for each in lanes],
        "last_run": None if export.last_run is None else run_view(export.last_run, listed=True),
        "table_state": export.table_state,
        "rejects_state": export.rejects_state,
        "failure": _failure(export.failure),
        "created_at": export.created_at,
        "updated_at": export.updated_at,
    }


def run_view(run: Run, *, listed: bool = False) -> dict[str, Any]:
    """`listed`: without its ranges, of which there may be many."""
    return {
        "number": run.number,
        "export": run.export,
        "kind": run.kind,
        "state": run.state,
        "trigger": run.trigger,
        "scheduled_for": run.scheduled_for,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "ranges": None if listed or run.ranges is None else _ranges(run.ranges),
        "progress": run.progress,
        "result": run.result,
        "failure": _failure(run.failure),
        "runner": run.runner,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }


def spec_for_runner(spec: ExportSpec) -> dict[str, Any]:
    """What a run has to know, in the words of runners and drivers."""
    return {
        "name": spec.name,
        "topic": spec.topic,
        **_table_of(spec),
        "columns": dict(spec.columns),
        "keep_data": spec.keep_data,
        "filter": spec.filter,
        "max_bytes_per_second": spec.max_bytes_per_second,
        "maintenance": {
            "target_file_bytes": spec.target_file_bytes,
            "keep_snapshots_s": spec.keep_snapshots_s,
            "orphans_after_s": spec.orphans_after_s,
        },
    }


def lag_of(lanes: Iterable[LaneState]) -> int:
    """Stored and not exported."""
    return sum(max(0, each.end - each.offset) for each in lanes if each.end is not None)


def _table_of(spec: ExportSpec) -> dict[str, Any]:
    return {
        "lake": spec.lake,
        "table": spec.table,
        "format": spec.format,
        "body": spec.body,
        "partition_by": spec.partition_by,
        "key_buckets": spec.key_buckets,
    }


def _choices_of(spec: ExportSpec) -> dict[str, Any]:
    """What can change."""
    return {
        "columns": dict(spec.columns),
        "keep_data": spec.keep_data,
        "filter": spec.filter,
        "max_bytes_per_second": spec.max_bytes_per_second,
        "maintenance": {
            "target_file_bytes": spec.target_file_bytes,
            "keep_snapshots_seconds": spec.keep_snapshots_s,
            "orphans_after_seconds": spec.orphans_after_s,
        },
        "cron": spec.cron,
        "time_zone": spec.time_zone,
        "missed_runs": spec.missed_runs,
        "maintain_cron": spec.maintain_cron,
        "paused": spec.paused,
        "labels": dict(spec.labels),
    }


def _next_runs(spec: ExportSpec, now: datetime) -> list[datetime]:
    """From the tick that comes next or is due on; none while it is paused."""
    if spec.paused or spec.cron is None or spec.next_at is None:
        return []
    later = runs_after(spec.cron, spec.time_zone, max(now, spec.next_at))
    return [spec.next_at.astimezone(UTC), *islice(later, SHOWN_TICKS - 1)]


def _position(state: LaneState) -> dict[str, Any]:
    return lane_view(state.lane) | {"offset": state.offset, "end_offset": state.end}


def _ranges(ranges: Iterable[LaneRange]) -> list[dict[str, Any]]:
    return [lane_view(each.lane) | {"start": each.start, "end": each.end} for each in ranges]


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    return None if failure is None else failure._asdict()
