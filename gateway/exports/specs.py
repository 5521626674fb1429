"""Exports between the API and the rows: the rules across fields, and changes.

A body is checked as a whole, so that one answer names all errors.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from msgspec import UNSET

from cron.plan import BadSchedule, check, next_run
from edge.problem import FieldError, Problem, invalid
from gateway.http.merge_patch import merged_into
from gateway.names import label_errors, name_errors
from gateway.subscriptions.bodies import filter_errors
from metadata.exports.types import Export, ExportSpec
from openapi import exports as contract
from openapi.contract import Body

MAX_COLUMN_CHARS = 255
MAINTAIN_CRON = "@daily"
REJECTS = "_rejects"
"""The end of the name of the table of messages that cannot be decoded."""
TABLE_RULE = "1 to 63 small letters, digits and '_', the first of them a letter"
START_RULE = "earliest, latest, or a time that is over (RFC 3339, with its zone)"
TYPE_RULE = (
    "one of string, boolean, long, double, timestamp, date, binary and decimal(p,s), with p from 1 "
    "to 38 and s from 0 to p"
)
_TABLE = re.compile(contract.TABLE_PATTERN)
_PLAIN_TYPES = frozenset({"string", "boolean", "long", "double", "timestamp", "date", "binary"})
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def new_spec(
    body: contract.ExportPut, name: str, lakes: frozenset[str], now: datetime
) -> ExportSpec:
    """Return the export that a body asks for. Raise a 422 Problem."""
    errors = name_errors(name)
    if body.name not in (UNSET, name):
        errors.append(FieldError("name", f"is {name!r} in the path"))
    spec = _spec(body, name)
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


def changed(body: contract.ExportPut, before: Export, now: datetime) -> ExportSpec:
    """Return the changed export: its next ticks stay where the clock is not changed, and no run is
    made up for a time in which it was paused. Raise a 409 Problem for a field that cannot change,
    and a 422 one."""
    spec = before.spec
    wanted = _spec(body, spec.name if body.name is UNSET else body.name)
    fixed = [field for field in body.FIXED if getattr(wanted, field) != getattr(spec, field)]
    if fixed:
        raise _immutable(spec, fixed)
    errors = _errors_of(wanted, spec)
    if errors:
        raise invalid("The body does not fit.", errors)
    return _with_ticks(wanted, spec, now)


def patched(patch: Body, before: Export) -> contract.ExportPut:
    """Return what a patch asks for of an export. Raise a 422 Problem."""
    return merged_into(patch, put_of(before.spec))


def paused(before: Export, wanted: bool, now: datetime) -> ExportSpec:
    """Return the same export, paused or not."""
    return _with_ticks(replace(before.spec, paused=wanted), before.spec, now)


def put_of(spec: ExportSpec) -> contract.ExportPut:
    """Return the body that a caller would ask with for the export as it is."""
    return contract.ExportPut(
        name=spec.name,
        topic=spec.topic,
        start=spec.start,
        lake=spec.lake,
        table=spec.table,
        format=spec.format,
        body=spec.body,
        partition_by=spec.partition_by,
        key_buckets=spec.key_buckets,
        columns=dict(spec.columns),
        keep_data=spec.keep_data,
        filter=spec.filter,
        max_bytes_per_second=spec.max_bytes_per_second,
        maintenance=contract.ExportMaintenance(
            spec.target_file_bytes, spec.keep_snapshots_s, spec.orphans_after_s
        ),
        cron=spec.cron,
        time_zone=spec.time_zone,
        missed_runs=spec.missed_runs,
        maintain_cron=spec.maintain_cron,
        paused=spec.paused,
        labels=dict(spec.labels),
    )


def table_of(name: str) -> str:
    """Return the name of the table of an export that names none."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def parsed_time(text: str) -> datetime | None:
    """Return a time of RFC 3339 in UTC; None for another text."""
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _spec(body: contract.ExportPut, name: str) -> ExportSpec:
    """Return the export of a body, without its ticks."""
    maintain_cron = body.maintain_cron
    if maintain_cron is UNSET:
        # Plain files need no maintenance.
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


def _normal(start: str) -> str:
    """Return the same text for the same time."""
    at = parsed_time(start)
    return start if at is None else at.isoformat()


def _errors_of(spec: ExportSpec, before: ExportSpec | None) -> list[FieldError]:
    """Return the errors of the fields that can change. Parts that stay as they were before are not
    looked at: rules for new ones may be stricter."""
    changes = partial(_changes, spec, before)
    errors = label_errors(dict(spec.labels)) if changes("labels") else []
    if changes("columns"):
        errors += _column_errors(spec)
    if changes("filter"):
        errors += _filter_errors(spec.filter)
    for field in ("cron", "maintain_cron"):
        if changes(field, "time_zone"):
            errors += _clock_errors(field, getattr(spec, field), spec.time_zone)
    if changes("maintain_cron") and spec.format == "parquet" and spec.maintain_cron is not None:
        errors.append(FieldError("maintain_cron", "null where format is parquet"))
    return list(dict.fromkeys(errors))


def _changes(spec: ExportSpec, before: ExportSpec | None, *fields: str) -> bool:
    """Return whether one of the fields has another value than before."""
    return before is None or any(getattr(spec, name) != getattr(before, name) for name in fields)


def _filter_errors(text: str | None) -> list[FieldError]:
    if text is not None and "\0" in text:
        return [FieldError("filter", "holds a NUL")]
    return filter_errors(text)


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


def _clock_errors(field: str, cron: str | None, time_zone: str) -> list[FieldError]:
    """Return the errors of a plan and of its time zone, which is checked without a plan too."""
    try:
        check(MAINTAIN_CRON if cron is None else cron, time_zone)
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
    """Return the tick that was next where the clock stays, and else the first from now on."""
    expression: str | None = getattr(spec, cron)
    if before is not None:
        clock = (expression, spec.time_zone)
        same = clock == (getattr(before, cron), before.time_zone)
        if same and (spec.paused or not before.paused):
            kept: datetime | None = getattr(before, at)
            return kept
    return None if expression is None else next_run(expression, spec.time_zone, now)


def _immutable(spec: ExportSpec, fields: list[str]) -> Problem:
    return Problem.of(
        "immutable-field",
        f"{', '.join(fields)} cannot be changed; make another export to have it otherwise.",
        errors=[FieldError(field, f"it is {getattr(spec, field)!r}") for field in fields],
    )
