"""Rows of exports and their runs, as the values they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from metadata.exports.types import (
    IDLE,
    PAUSED,
    Export,
    ExportSpec,
    Failure,
    Lane,
    LanePosition,
    LaneRange,
    LaneState,
    Run,
    RunProgress,
    RunResult,
    TableState,
)

RUNS = """
SELECT r.tenant_id, r.uid, r.export_uid, e.name AS export, r.number, r.kind, r.trigger, r.state,
    r.cancelling, r.scheduled_for, r.attempt, r.max_attempts, r.ranges::text AS ranges,
    r.progress::text AS progress, r.result::text AS result, r.failure_code, r.failure_message,
    r.runner, r.ready_at, r.created_at, r.started_at, r.finished_at
FROM export_runs AS r
JOIN exports AS e ON e.tenant_id = r.tenant_id AND e.uid = r.export_uid
"""
SPECS = """
SELECT e.tenant_id, e.uid, e.name, e.topic, e.table_name, e.lake, e.format, e.body,
    e.body_columns::text AS body_columns, e.keep_data, e.partition_by, e.key_buckets, e.filter,
    e.max_bytes_per_second, e.target_file_bytes, e.keep_snapshots_s, e.orphans_after_s, e.start_at,
    e.cron, e.time_zone, e.missed_runs, e.maintain_cron, e.next_at, e.maintain_next_at, e.paused,
    e.labels::text AS labels
FROM exports AS e
"""
EXPORTS = """
SELECT e.tenant_id, e.uid, e.name, e.topic, e.table_name, e.lake, e.format, e.body,
    e.body_columns::text AS body_columns, e.keep_data, e.partition_by, e.key_buckets, e.filter,
    e.max_bytes_per_second, e.target_file_bytes, e.keep_snapshots_s, e.orphans_after_s, e.start_at,
    e.cron, e.time_zone, e.missed_runs, e.maintain_cron, e.next_at, e.maintain_next_at, e.paused,
    e.labels::text AS labels,
    e.row_count, e.rejected, e.filtered, e.byte_count, e.expired, e.runs, e.missed, e.coalesced,
    e.table_state::text AS table_state, e.rejects_state::text AS rejects_state, e.failure_code,
    e.failure_message, e.version, e.created_at, e.updated_at,
    (
        SELECT max(r.state) FROM export_runs AS r
        WHERE r.tenant_id = e.tenant_id AND r.export_uid = e.uid
          AND r.state IN ('queued', 'running')
    ) AS live
FROM exports AS e
"""
POSITIONS = """
SELECT x.export_uid, t.name, x.topic_uid, x.partition, x.lane, x.reached, x.lane_end
FROM export_positions AS x
JOIN topics AS t ON t.tenant_id = x.tenant_id AND t.uid = x.topic_uid
WHERE x.tenant_id = $1 AND x.export_uid = ANY ($2::uuid[])
ORDER BY x.export_uid, t.name, x.topic_uid, x.partition, x.lane
"""
_Written = tuple[str, str, int, int, int, int, int | None]
_Noted = tuple[str, str, int, int, int]
T = TypeVar("T")


def spec_of(row: Any) -> ExportSpec:
    return ExportSpec(
        name=row["name"],
        topic=row["topic"],
        table=row["table_name"],
        lake=row["lake"],
        format=row["format"],
        body=row["body"],
        columns=msgspec.json.decode(row["body_columns"]),
        keep_data=row["keep_data"],
        partition_by=row["partition_by"],
        key_buckets=row["key_buckets"],
        filter=row["filter"],
        max_bytes_per_second=row["max_bytes_per_second"],
        target_file_bytes=row["target_file_bytes"],
        keep_snapshots_s=row["keep_snapshots_s"],
        orphans_after_s=row["orphans_after_s"],
        start=row["start_at"],
        cron=row["cron"],
        time_zone=row["time_zone"],
        missed_runs=row["missed_runs"],
        maintain_cron=row["maintain_cron"],
        next_at=row["next_at"],
        maintain_next_at=row["maintain_next_at"],
        paused=row["paused"],
        labels=msgspec.json.decode(row["labels"]),
    )


def export_of(row: Any, positions: Iterable[LaneState], last_run: Run | None) -> Export:
    return Export(
        tenant_id=row["tenant_id"],
        uid=row["uid"],
        spec=spec_of(row),
        state=row["live"] or (PAUSED if row["paused"] else IDLE),
        rows=row["row_count"],
        rejected=row["rejected"],
        filtered=row["filtered"],
        bytes=row["byte_count"],
        expired=row["expired"],
        runs=row["runs"],
        missed=row["missed"],
        coalesced=row["coalesced"],
        positions=tuple(positions),
        last_run=last_run,
        table_state=_decoded(row["table_state"], TableState),
        rejects_state=_decoded(row["rejects_state"], TableState),
        failure=_failure(row),
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def run_of(row: Any) -> Run:
    return Run(
        tenant_id=row["tenant_id"],
        uid=row["uid"],
        export_uid=row["export_uid"],
        export=row["export"],
        number=row["number"],
        kind=row["kind"],
        trigger=row["trigger"],
        state=row["state"],
        cancelling=row["cancelling"],
        scheduled_for=row["scheduled_for"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        ranges=ranges_of(row["ranges"]),
        progress=_decoded(row["progress"], RunProgress),
        result=_decoded(row["result"], RunResult),
        failure=_failure(row),
        runner=row["runner"],
        ready_at=row["ready_at"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


def state_of(row: Any) -> LaneState:
    """Return the state of a lane from a row of `POSITIONS`."""
    lane = Lane(row["name"], row["topic_uid"], row["partition"], row["lane"])
    return LaneState(lane, row["reached"], row["lane_end"])


def ranges_of(text: str | None) -> tuple[LaneRange, ...] | None:
    if text is None:
        return None
    return tuple(
        LaneRange(Lane(topic, bytes.fromhex(uid), partition, lane), start, end, position)
        for topic, uid, partition, lane, start, end, position in msgspec.json.decode(
            text, type=list[_Written]
        )
    )


def ranges_text(ranges: Sequence[LaneRange]) -> str:
    return json(
        [
            (lane.topic, lane.topic_uid.hex(), lane.partition, lane.lane, *rest)
            for lane, *rest in ranges
        ]
    )


def positions_of(text: str | None) -> tuple[LanePosition, ...] | None:
    if text is None:
        return None
    return tuple(
        LanePosition(Lane(topic, bytes.fromhex(uid), partition, lane), offset)
        for topic, uid, partition, lane, offset in msgspec.json.decode(text, type=list[_Noted])
    )


def positions_text(positions: Iterable[LanePosition]) -> str:
    return json(
        [
            (lane.topic, lane.topic_uid.hex(), lane.partition, lane.lane, offset)
            for lane, offset in positions
        ]
    )


def json(value: object) -> str:
    """Return JSON for a parameter that is cast to jsonb, which has no NUL."""
    return msgspec.json.encode(value).decode().replace("\\u0000", "")


def json_or_none(value: object | None) -> str | None:
    return None if value is None else json(value)


def labels_of(labels: Mapping[str, str]) -> str:
    return json(dict(labels))


def _decoded(text: str | None, kind: type[T]) -> T | None:
    return None if text is None else msgspec.json.decode(text, type=kind)


def _failure(row: Any) -> Failure | None:
    if row["failure_code"] is None:
        return None
    return Failure(row["failure_code"], row["failure_message"] or "")
