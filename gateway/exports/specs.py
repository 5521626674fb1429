"""From what a caller says to what an export is: checked whole, so that one answer names all that is
wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, UnsetType

from edge.problem import FieldError, Problem, invalid
from gateway.exports.bodies import TABLE_PATTERN, ExportPatch, ExportPut, Maintenance
from gateway.http.merge_patch import Patch, merged
from gateway.names import label_errors, name_errors
from gateway.subscriptions.bodies import filter_errors
from metadata.exports.types import IMMUTABLE, Export, ExportSpec
from scheduler.cron_plan import BadSchedule, check, next_run

MAX_COLUMN_CHARS = 255
MAINTAIN_CRON = "@daily"
REJECTS = "_rejects"
"""How the table of what cannot be decoded ends, beside that of the export."""
TABLE_RULE = "1 to 63 small letters, digits and '_', the first of them a letter"
START_RULE = "earliest, latest, or a time that is over (RFC 3339, with its zone)"
TYPE_RULE = (
    "one of string, boolean, long, double, timestamp, date, binary and decimal(p,s), with p from 1 "
    "to 38 and s from 0 to p"
)
_TABLE = re.compile(TABLE_PATTERN)
_PLAIN_TYPES = frozenset({"string", "boolean", "long", "double", "timestamp", "date", "binary"})
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_CHANGING = (
    *("columns", "keep_data", "filter", "max_bytes_per_second"),
    *("cron", "time_zone", "missed_runs", "maintain_cron", "paused", "labels"),
)


def new_spec(body: ExportPut, name: str, lakes: frozenset[str], now: datetime) -> ExportSpec:
    """Raises a 422 Problem."""
    errors = name_errors(name)
    if body.name not in (UNSET, name):
        errors.append(FieldError("name", f"is {name!r} in the path"))
    spec = _whole(body, name)
    if not _TABLE.fullmatch(spec.table):
        errors.append(FieldError("table", f"give one, {spec.table[:80]!r} is none: {TABLE_RULE}"))
    elif spec.table.endswith(REJECTS):
        errors.append(FieldError("table", f"{REJECTS!r} at the end is for tables of rejects"))
    if spec.lake not in lakes:
        errors.append(FieldError("lake", f"one of {', '.join(sorted(lakes))}"))
    errors += name_errors(body.topic.replace("*", "x"), "topic")
    if spec.start not in ("earliest", "latest"):
        at = parsed_time(spec.start)
        if at is None or at > now:
            errors.append(FieldError("start", START_RULE))
    errors += _errors_of(spec, None)
    if errors:
        raise invalid("The body does not fit.", errors)
    return _with_ticks(spec, None, now)


def changed(body: ExportPut | ExportPatch, before: Export, now: datetime) -> ExportSpec:
    """What the export becomes: its next ticks stay where the clock is not changed, and none is made
    up for of a time in which it was paused. Raises a 409 Problem for what never changes, and a 422
    one."""
    spec = before.spec
    if isinstance(body, ExportPut):
        wanted = _whole(body, spec.name)
    else:
        given = {field: getattr(body, field) for field in (*IMMUTABLE, *_CHANGING)}
        given |= _maintenance(body.maintenance)
        if body.start is not UNSET:
            given["start"] = _normal(body.start)
        values: dict[str, Any] = {k: each for k, each in given.items() if each is not UNSET}
        wanted = replace(spec, **values)
    if body.name is not UNSET:
        wanted = replace(wanted, name=body.name)
    fixed = [f for f in ("name", *IMMUTABLE) if getattr(wanted, f) != getattr(spec, f)]
    if fixed:
        raise _immutable(spec, fixed)
    errors = _errors_of(wanted, spec.filter)
    if errors:
        raise invalid("The body does not fit.", errors)
    return _with_ticks(wanted, spec, now)


def patched(patch: Patch, before: Export) -> ExportPatch:
    """Raises a 422 Problem."""
    spec = before.spec
    present = {
        "columns": dict(spec.columns),
        "labels": dict(spec.labels),
        "maintenance": {
            "target_file_bytes": spec.target_file_bytes,
            "keep_snapshots_seconds": spec.keep_snapshots_s,
            "orphans_after_seconds": spec.orphans_after_s,
        },
    }
    return merged(patch, present, ExportPatch, ExportPut)


def paused(before: Export, wanted: bool, now: datetime) -> ExportSpec:
    """The same, paused or not."""
    return changed(ExportPatch(paused=wanted), before, now)


def table_of(name: str) -> str:
    """The table of an export that names none."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def parsed_time(text: str) -> datetime | None:
    """In UTC; None for what is no time of RFC 3339."""
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _whole(body: ExportPut, name: str) -> ExportSpec:
    """Without its ticks."""
    maintain_cron = body.maintain_cron
    if maintain_cron is UNSET:
        # Plain files have nothing to be maintained.
        maintain_cron = None if body.format == "parquet" else MAINTAIN_CRON
    return ExportSpec(
        name=name,
        topic=body.topic,
        table=table_of(name) if body.table is UNSET else body.table,
        lake=body.lake,
        format=body.format,
        body=body.body,
        columns=body.columns,
        keep_data=body.keep_data,
        partition_by=body.partition_by,
        key_buckets=body.key_buckets,
        filter=body.filter,
        max_bytes_per_second=body.max_bytes_per_second,
        target_file_bytes=body.maintenance.target_file_bytes,
        keep_snapshots_s=body.maintenance.keep_snapshots_seconds,
        orphans_after_s=body.maintenance.orphans_after_seconds,
        start=_normal(body.start),
        cron=body.cron,
        time_zone=body.time_zone,
        missed_runs=body.missed_runs,
        maintain_cron=maintain_cron,
        paused=body.paused,
        labels=body.labels,
    )


def _maintenance(body: Maintenance | UnsetType) -> dict[str, int]:
    if body is UNSET:
        return {}
    return {
        "target_file_bytes": body.target_file_bytes,
        "keep_snapshots_s": body.keep_snapshots_seconds,
        "orphans_after_s": body.orphans_after_seconds,
    }


def _normal(start: str) -> str:
    """One text for one moment."""
    at = parsed_time(start)
    return start if at is None else at.isoformat()


def _errors_of(spec: ExportSpec, kept_filter: str | None) -> list[FieldError]:
    """Of what can change. A filter that was taken before and stays is not looked at."""
    errors = label_errors(dict(spec.labels)) + _column_errors(spec)
    if spec.filter is not None and "\0" in spec.filter:
        errors.append(FieldError("filter", "holds a NUL"))
    elif spec.filter != kept_filter:
        errors += filter_errors(spec.filter)
    for field in ("cron", "maintain_cron"):
        cron = getattr(spec, field)
        if cron is not None:
            errors += _clock_errors(field, cron, spec.time_zone)
    if spec.cron is None and spec.maintain_cron is None:
        errors += _clock_errors("cron", MAINTAIN_CRON, spec.time_zone)
    if spec.format == "parquet" and spec.maintain_cron is not None:
        errors.append(FieldError("maintain_cron", "null where format is parquet"))
    return list(dict.fromkeys(errors))


def _column_errors(spec: ExportSpec) -> list[FieldError]:
    if spec.columns and spec.body == "raw":
        return [FieldError("columns", "none where body is raw: nothing is decoded")]
    errors = []
    for name, kind in spec.columns.items():
        if not 0 < len(name) <= MAX_COLUMN_CHARS or _CONTROL.search(name):
            rule = f"1 to {MAX_COLUMN_CHARS} characters, no control characters"
            errors.append(FieldError("columns", f"the name {name[:80]!r}: {rule}"))
        elif not _is_type(kind):
            errors.append(FieldError(f"columns.{name}", TYPE_RULE))
    return errors


def _is_type(text: str) -> bool:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return text in _PLAIN_TYPES
    precision, scale = int(found[1]), int(found[2])
    return 1 <= precision <= 38 and scale <= precision


def _clock_errors(field: str, cron: str, time_zone: str) -> list[FieldError]:
    try:
        check(cron, time_zone)
    except BadSchedule as error:
        return [FieldError(field if error.field == "cron" else error.field, str(error))]
    return []


def _with_ticks(spec: ExportSpec, before: ExportSpec | None, now: datetime) -> ExportSpec:
    return replace(
        spec,
        next_at=_tick(spec, before, "cron", "next_at", now),
        maintain_next_at=_tick(spec, before, "maintain_cron", "maintain_next_at", now),
    )


def _tick(
    spec: ExportSpec, before: ExportSpec | None, cron: str, at: str, now: datetime
) -> datetime | None:
    """The one there was, where nothing about it changed; else the first from now on."""
    expression: str | None = getattr(spec, cron)
    if before is not None:
        clock = (expression, spec.time_zone)
        same = clock == (getattr(before, cron), before.time_zone)
        if same and (spec.paused or not before.paused):
            kept: datetime | None = getattr(before, at)
            return kept
    return None if expression is None else next_run(expression, spec.time_zone, now)


def _immutable(spec: ExportSpec, fields: list[str]) -> Problem:
    return Problem(
        409,
        "immutable-field",
        "The field cannot be changed",
        f"{', '.join(fields)} cannot be changed; make another export to have it otherwise.",
        errors=[FieldError(field, f"it is {getattr(spec, field)!r}") for field in fields],
    )
