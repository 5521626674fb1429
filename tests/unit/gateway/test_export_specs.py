"""Tests of the bodies of exports: the settings that they ask for, and their errors."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edge.problem import Problem
from gateway.exports import specs
from gateway.exports.runs import window_of
from gateway.exports.specs import changed, new_spec, parsed_time, paused, table_of
from gateway.http.decoding import decode_json
from metadata.exports.types import Export, ExportSpec
from openapi.export_runs import ExportRunStart
from openapi.exports import ExportCreate, ExportPatch, ExportPut

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
LAKES = frozenset({"default", "attic"})


def spec_of(**members: Any) -> ExportSpec:
    body = decode_json(msgspec.json.encode({"topic": "orders"} | members), ExportPut)
    return new_spec(body, members.get("name", "daily"), LAKES, NOW)


def fields_of(**members: Any) -> list[str]:
    with pytest.raises(Problem) as refused:
        spec_of(**members)
    assert refused.value.status == 422
    return [error.field for error in refused.value.errors]


def export_of(spec: ExportSpec) -> Export:
    return Export(
        tenant_id=bytes(16),
        uid=bytes(16),
        spec=spec,
        state="idle",
        rows=0,
        rejected=0,
        filtered=0,
        bytes=0,
        expired=0,
        runs=0,
        missed=0,
        coalesced=0,
        positions=(),
        last_run=None,
        table_state=None,
        rejects_state=None,
        failure=None,
        version=1,
        created_at=NOW,
        updated_at=NOW,
    )


def patched(spec: ExportSpec, *, now: datetime = NOW, **members: Any) -> ExportSpec:
    export = export_of(spec)
    patch = decode_json(msgspec.json.encode(members), ExportPatch)
    return changed(specs.patched(patch, export), export, now)


def put(spec: ExportSpec, **members: Any) -> ExportSpec:
    body = decode_json(msgspec.json.encode({"topic": "orders"} | members), ExportPut)
    return changed(body, export_of(spec), NOW)


def test_what_is_not_said() -> None:
    spec = spec_of()
    assert (spec.table, spec.lake, spec.format, spec.body) == (
        "daily",
        "default",
        "iceberg",
        "json",
    )
    assert (spec.partition_by, spec.key_buckets, spec.start) == ("day", 0, "earliest")
    assert (spec.cron, spec.next_at, spec.missed_runs) == (None, None, "latest")
    assert spec.maintain_next_at == datetime(2026, 3, 2, tzinfo=UTC)


def test_all_structs_of_the_api_are_read_alike() -> None:
    body = decode_json(b'{"name": "a", "topic": "b", "key_buckets": 4.0}', ExportCreate)
    assert (body.name, body.topic, body.key_buckets) == ("a", "b", 4)


@pytest.mark.parametrize(
    ("name", "table"), [("Orders-EU.1", "orders_eu_1"), ("a_b", "a_b"), ("A", "a")]
)
def test_a_table_is_named_after_its_export(name: str, table: str) -> None:
    assert table_of(name) == table
    assert spec_of(name=name).table == table


def test_names_that_make_no_table_need_one() -> None:
    assert fields_of(name="2026") == ["table"]
    assert fields_of(name="a" * 64) == ["table"]
    assert spec_of(name="2026", table="y2026").table == "y2026"


def test_tables_of_rejects_are_not_taken() -> None:
    assert fields_of(table="orders_rejects") == ["table"]


@pytest.mark.parametrize("start", ["earliest", "latest", "2026-03-01T12:30:00Z"])
def test_starts(start: str) -> None:
    assert parsed_time(spec_of(start=start).start) in (None, NOW)


@pytest.mark.parametrize(
    "start",
    [
        "",
        "now",
        "2026-03-01",
        "2026-03-01T12:30:00",
        "2026-03-01T12:31:00Z",
        "9999-12-31T23:59:59Z",
    ],
)
def test_starts_that_are_none(start: str) -> None:
    assert fields_of(start=start) == ["start"]


@pytest.mark.parametrize(
    "kind", ["string", "long", "timestamp", "decimal(1,0)", "decimal(38,38)", "decimal(10,2)"]
)
def test_types_of_columns(kind: str) -> None:
    assert spec_of(columns={"a.b": kind}).columns == {"a.b": kind}


@pytest.mark.parametrize(
    "kind", ["", "int", "String", "decimal", "decimal(0,0)", "decimal(39,0)", "decimal(2,3)"]
)
def test_types_that_are_none(kind: str) -> None:
    assert fields_of(columns={"a": kind}) == ["columns.a"]


@pytest.mark.parametrize("name", ["", "a\0", "a\n", "x" * 256])
def test_names_of_columns_that_are_none(name: str) -> None:
    assert fields_of(columns={name: "long"}) == ["columns"]


def test_what_does_not_go_together() -> None:
    assert fields_of(body="raw", columns={"a": "long"}) == ["columns"]
    assert fields_of(format="parquet", maintain_cron="@daily") == ["maintain_cron"]
    assert spec_of(format="parquet").maintain_cron is None


def test_topics_and_patterns() -> None:
    for topic in ("*", "orders-*", "*-eu", "a*b"):
        assert spec_of(topic=topic).topic == topic
    for topic in ("-*", "a b", "a/*"):
        assert fields_of(topic=topic) == ["topic"]


def test_clocks() -> None:
    assert spec_of(cron="0 * * * *").next_at == datetime(2026, 3, 1, 13, tzinfo=UTC)
    assert fields_of(cron="61 * * * *") == ["cron"]
    assert fields_of(maintain_cron="never") == ["maintain_cron"]
    assert fields_of(time_zone="Mars/Olympus", maintain_cron=None) == ["time_zone"]
    assert fields_of(time_zone="Mars/Olympus", cron="@daily") == ["time_zone"]


def test_a_filter_is_compiled() -> None:
    assert spec_of(filter="key == 'a'").filter == "key == 'a'"
    assert fields_of(filter="key ==") == ["filter"]
    assert fields_of(filter="key == '\0'") == ["filter"]


def test_put_with_the_same_is_the_same() -> None:
    members = {
        "cron": "@hourly",
        "start": "2026-01-01T01:00:00+01:00",
        "columns": {"a": "long"},
        "maintenance": {"target_file_bytes": 1 << 20},
    }
    spec = spec_of(**members)
    assert put(spec, **members | {"start": "2026-01-01T00:00:00Z"}) == spec


def test_put_says_all_and_patch_what_changes() -> None:
    spec = spec_of(cron="@hourly", keep_data=True, labels={"a": "b"}, maintain_cron=None)
    assert put(spec).labels == {}
    assert put(spec).keep_data is False
    assert put(spec).maintain_cron == "@daily"
    assert patched(spec, filter="true") == replace(spec, filter="true")
    assert patched(spec, cron=None).next_at is None
    assert patched(spec, maintenance={"orphans_after_seconds": 3600}).orphans_after_s == 3600


def test_ticks_stay_where_the_clock_does() -> None:
    spec = spec_of(cron="@hourly")
    later = NOW + timedelta(hours=3)
    assert patched(spec, now=later, filter="true").next_at == spec.next_at
    assert patched(spec, now=later, cron="@daily").next_at == datetime(2026, 3, 2, tzinfo=UTC)
    zoned = patched(spec, now=later, time_zone="Asia/Kolkata")
    assert zoned.next_at == datetime(2026, 3, 1, 16, 30, tzinfo=UTC)


def test_none_is_made_up_for_of_a_pause() -> None:
    spec = paused(export_of(spec_of(cron="@hourly")), True, NOW)
    assert spec.next_at is not None
    resumed = paused(export_of(spec), False, NOW + timedelta(days=1))
    assert resumed.next_at == datetime(2026, 3, 2, 13, tzinfo=UTC)


def test_what_never_changes_is_named_whole() -> None:
    with pytest.raises(Problem) as refused:
        patched(spec_of(), name="other", table="other", start="latest", key_buckets=2, paused=True)
    assert (refused.value.status, refused.value.slug) == (409, "immutable-field")
    fields = {error.field for error in refused.value.errors}
    assert fields == {"name", "table", "start", "key_buckets"}


def test_changes_are_checked_as_new_ones_are() -> None:
    for members in ({"filter": "x."}, {"labels": {"": "a"}}, {"columns": {"a": "int"}}):
        with pytest.raises(Problem) as refused:
            patched(spec_of(), **members)
        assert refused.value.status == 422


def test_windows_of_runs() -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    window = window_of(ExportRunStart(kind="backfill", from_time=first, to_offset=5))
    assert window.from_time == first
    assert (window.to_time, window.from_offset, window.to_offset) == (None, None, 5)
    assert window_of(ExportRunStart(kind="reconcile")) == window_of(ExportRunStart())
    with pytest.raises(Problem):
        window_of(ExportRunStart(kind="reconcile", from_time=first, to_time=first))


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00", "2026-01-01", "noon", 7])
def test_the_times_of_a_run_have_a_zone(time: object) -> None:
    with pytest.raises(Problem) as refused:
        decode_json(msgspec.json.encode({"from_time": time}), ExportRunStart)
    assert [error.field for error in refused.value.errors] == ["from_time"]


def test_a_patch_does_not_judge_the_parts_that_stay_as_they_are() -> None:
    strange = replace(
        spec_of(cron="@daily"),
        time_zone="Mars/Olympus",
        labels={"": "a"},
        columns={"a": "int"},
        filter="key ==",
    )
    assert patched(strange, keep_data=True) == replace(strange, keep_data=True)
    assert paused(export_of(strange), True, NOW) == replace(strange, paused=True)
    for members in (
        {"cron": "@hourly"},
        {"time_zone": "Moon/Crater"},
        {"labels": {"b": "c"}},
        {"columns": {"b": "long"}},
        {"filter": "key !="},
    ):
        with pytest.raises(Problem) as refused:
            patched(strange, **members)
        assert refused.value.status == 422


def test_null_in_a_patch_is_the_default_also_of_a_field_that_never_changes() -> None:
    spec = spec_of(keep_data=True, labels={"a": "b"})
    assert patched(spec, keep_data=None, start=None) == replace(spec, keep_data=False)
    assert patched(spec, labels={"a": None}).labels == {}
    with pytest.raises(Problem) as refused:
        patched(spec_of(start="latest"), start=None)
    assert refused.value.status == 409
    for member in ({"name": None}, {"topic": None}, {"table": None}):
        with pytest.raises(Problem) as refused:
            patched(spec, **member)  # type: ignore[arg-type]
        assert refused.value.status == 422
