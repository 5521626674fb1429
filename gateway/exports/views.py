"""Exports and their runs as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import cast

import msgspec

from cron.plan import runs_after
from gateway.exports.lanes import key_of
from gateway.exports.specs import put_of
from gateway.tenancy.answers import extended
from metadata.exports.types import (
    Export,
    ExportSpec,
    Failure,
    LaneState,
    Run,
    RunProgress,
    RunResult,
    TableState,
)
from openapi import export_runners, export_runs
from openapi import exports as contract
from openapi.contract import fields_of

SHOWN_TICKS = 3


def export_view(
    export: Export, now: datetime, lanes: Sequence[LaneState] | None = None
) -> contract.Export:
    """Return an export with its lanes as they are now; without them it is an item of a listing."""
    spec = export.spec
    settings = msgspec.structs.asdict(put_of(spec))
    rules = settings.pop("maintenance")
    return contract.Export(
        **settings,
        maintenance=extended(contract.ExportMaintenanceView, rules),
        state=cast(contract.State, export.state),
        next_runs=_next_runs(spec, now),
        rows=export.rows,
        rejected=export.rejected,
        filtered=export.filtered,
        bytes=export.bytes,
        expired=export.expired,
        lag_messages=export.lag_messages if lanes is None else lag_of(lanes),
        positions=None if lanes is None else [_position(each) for each in lanes],
        last_run=None if export.last_run is None else run_view(export.last_run, listed=True),
        table_state=_table(export.table_state),
        rejects_state=_table(export.rejects_state),
        failure=_failure(export.failure),
        created_at=export.created_at,
        updated_at=export.updated_at,
    )


def run_view(run: Run, *, listed: bool = False) -> export_runs.ExportRun:
    """Return a run; in a listing it has no ranges, of which there may be many."""
    ranges = None if listed else run.ranges
    return export_runs.ExportRun(
        number=run.number,
        export=run.export,
        kind=cast(export_runs.Kind, run.kind),
        state=cast(export_runs.State, run.state),
        trigger=cast(export_runs.Trigger, run.trigger),
        scheduled_for=run.scheduled_for,
        attempt=run.attempt,
        max_attempts=run.max_attempts,
        ranges=None
        if ranges is None
        else [
            extended(export_runs.ExportRange, key_of(each.lane), start=each.start, end=each.end)
            for each in ranges
        ],
        progress=_progress(run.progress),
        result=_result(run.result),
        failure=_failure(run.failure),
        runner=run.runner,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


def spec_for_runner(spec: ExportSpec) -> export_runners.ExportSpec:
    """Return an export as a run of it needs it."""
    return export_runners.ExportSpec(
        **fields_of(contract.ExportShape, put_of(spec)),
        maintenance=export_runners.ExportSpecMaintenance(
            spec.target_file_bytes, spec.keep_snapshots_s, spec.orphans_after_s
        ),
    )


def lag_of(lanes: Iterable[LaneState]) -> int:
    """Return the number of messages that are stored and not exported."""
    return sum(max(0, each.end - each.offset) for each in lanes if each.end is not None)


def _next_runs(spec: ExportSpec, now: datetime) -> list[datetime]:
    """Return the next times of the clock, from the one that is due on; a paused export has none."""
    if spec.paused or spec.cron is None or spec.next_at is None:
        return []
    later = runs_after(spec.cron, spec.time_zone, max(now, spec.next_at))
    return [spec.next_at.astimezone(UTC), *islice(later, SHOWN_TICKS - 1)]


def _position(state: LaneState) -> contract.ExportPosition:
    return extended(
        contract.ExportPosition, key_of(state.lane), offset=state.offset, end_offset=state.end
    )


def _table(state: TableState | None) -> contract.LakeTableState | None:
    if state is None:
        return None
    return msgspec.convert(state, contract.LakeTableState, from_attributes=True)


def _progress(progress: RunProgress | None) -> export_runs.ExportRunStage | None:
    if progress is None:
        return None
    return msgspec.convert(progress, export_runs.ExportRunStage, from_attributes=True)


def _result(result: RunResult | None) -> export_runs.ExportRunResult | None:
    if result is None:
        return None
    return msgspec.convert(result, export_runs.ExportRunResult, from_attributes=True)


def _failure(failure: Failure | None) -> export_runs.RunFailure | None:
    return None if failure is None else export_runs.RunFailure(failure.code, failure.message)
