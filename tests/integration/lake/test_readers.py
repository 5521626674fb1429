"""PyIceberg and DuckDB read the rows that were written, of files old and new, joined or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from packetboat.models.export_runs import LaneRange

from harness.export_specs import maintenance
from spark_exports.lake.commit import Commit
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.maintenance import compact
from spark_exports.lake.table import LakeTable
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    batch,
    files_named,
    local_lake,
    message,
    open_table,
    write,
)

MORE = pa.schema(
    [
        ("who", pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string()))])),
        ("price", pa.decimal128(9, 2)),
        ("amount", pa.int64()),
    ]
)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[LakeTable]:
    with local_lake(tmp_path) as lake:
        yield _filled(lake)


def _filled(lake: Lake) -> LakeTable:
    table = open_table(lake, Layout("day", 2))
    first = batch(message(offset, key=None if offset % 5 else "k") for offset in range(30))
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 30)], write(table.writer(1, 1), first)))
    columns = table.evolve(MORE)
    second = batch(
        (
            message(
                offset,
                who={"name": f"ñ{offset}", "tags": ["a", None]} if offset % 2 else None,
                data=bytes([offset]) * offset,
                attributes=[],
            )
            for offset in range(30, 60)
        ),
        columns,
    )
    table.commit(Commit(2, 1, [LaneRange(KEY, 30, 60)], write(table.writer(2, 1), second)))
    return table


def by_pyiceberg(table: LakeTable) -> list[dict[str, Any]]:
    table.refresh()
    found = table.iceberg.scan().to_arrow().sort_by("offset").to_pylist()
    return [row | {"attributes": dict(row["attributes"])} for row in found]


def by_duckdb(table: LakeTable) -> list[dict[str, Any]]:
    found = duckdb.sql(
        'SELECT * FROM read_parquet(?, union_by_name = true) ORDER BY "offset"',
        params=[sorted(files_named(table))],
    ).to_arrow_table()
    assert set(found.column_names) == set(table.columns.names)
    return [row | {"attributes": dict(row["attributes"])} for row in found.to_pylist()]


def test_both_read_the_same(table: LakeTable) -> None:
    rows = by_pyiceberg(table)
    assert [row["offset"] for row in rows] == list(range(60))
    assert rows[31]["who"] == {"name": "ñ31", "tags": ["a", None]}
    assert rows[31]["data"] == bytes([31]) * 31
    assert rows[3]["who"] is None
    assert rows[3]["attributes"] == {"n": "3"}
    assert by_duckdb(table) == rows


def test_both_read_the_same_of_joined_files(table: LakeTable) -> None:
    before = by_pyiceberg(table)
    assert compact(table, maintenance(), 3, 1, now_s=4e9).added_files > 0
    assert by_pyiceberg(table) == before == by_duckdb(table)


def test_filters_leave_files_out(table: LakeTable) -> None:
    def files(row_filter: str) -> int:
        return len(list(table.iceberg.scan(row_filter=row_filter).plan_files()))

    every = files("offset >= 0")
    assert 0 < files("publish_time < '2026-03-02T00:00:00+00:00'") < every
    assert 0 < files("offset = 45") < every
    assert 0 < files("key = 'k'") < every
    assert 0 < files("amount > 50") < every
    assert files("offset > 60") == 0
