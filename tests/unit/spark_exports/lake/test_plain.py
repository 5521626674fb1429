"""Plain files: what a manifest names is complete; runs of one number come once."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packetboat.models.export_runs import LaneRange

from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import ConflictingColumn
from spark_exports.lake.layout import Layout
from spark_exports.lake.plain import PlainFiles
from tests.unit.spark_exports.lake.lake_support import (
    COLUMNS,
    KEY,
    batch,
    lane,
    local_settings,
    message,
    write,
)


def plain(directory: Path, layout: Layout = Layout("day")) -> PlainFiles:  # noqa: B008
    return PlainFiles(local_settings(directory), "acme", "orders", COLUMNS, layout)


def named(files: PlainFiles) -> list[str]:
    """The files of all complete runs."""
    found = []
    for run in range(1, files.last_run + 1):
        manifest = files.manifest(run)
        if manifest is not None:
            found += [f"{files.state.location}/{file.path}" for file in manifest.files]
    return found


def test_files_are_by_partition_and_named_by_run(tmp_path: Path) -> None:
    files = plain(tmp_path, Layout("hour", 2))
    written = write(files.writer(7, 2), lane(0, 3), batch([message(3, key=None)]))
    files.commit(Commit(7, 2, [LaneRange(KEY, 0, 4)], written))
    below = [name.removeprefix(f"{tmp_path}/lake/acme/orders/") for name in named(files)]
    assert len(below) == 4
    assert below[0].startswith("publish_hour=2026-03-01-00/key_bucket=")
    assert below[0].rpartition("/")[2].startswith("run-7-2-")
    assert any("key_bucket=null" in name for name in below)


def test_readers_get_the_rows(tmp_path: Path) -> None:
    files = plain(tmp_path)
    for run, at in ((1, 0), (2, 30)):
        written = write(files.writer(run, 1), lane(at, at + 30))
        assert not files.commit(Commit(run, 1, [LaneRange(KEY, at, at + 30)], written)).already
    found = duckdb.sql('SELECT "offset" FROM read_parquet(?) ORDER BY 1', params=[named(files)])
    assert [row[0] for row in found.fetchall()] == list(range(60))


def test_the_attempt_that_was_first_stays(tmp_path: Path) -> None:
    first, second = plain(tmp_path), plain(tmp_path)
    ranges = [LaneRange(KEY, 0, 30)]
    of_first, of_second = (write(each.writer(1, 1), lane(0, 30)) for each in (first, second))
    assert not first.commit(Commit(1, 1, ranges, of_first)).already
    assert second.commit(Commit(1, 2, ranges, of_second)).already
    assert first.commit(Commit(1, 1, ranges, of_first)).already
    assert {str(path) for path in tmp_path.rglob("*.parquet")} == set(named(first))
    manifest = json.loads(Path(f"{tmp_path}/lake/acme/orders/_manifests/run-1.json").read_text())
    assert manifest["ranges"][0]["end"] == 30
    assert sum(file["rows"] for file in manifest["files"]) == 30


def test_columns_are_those_of_the_last_run(tmp_path: Path) -> None:
    files = plain(tmp_path)
    assert files.columns == COLUMNS
    after = files.evolve(pa.schema([("new", pa.struct([("x", pa.int32())]))]))
    assert after.names == [*COLUMNS.names, "new"]
    assert plain(tmp_path).columns == COLUMNS
    written = write(files.writer(1, 1), batch([message(0, new={"x": 1})], after))
    files.commit(Commit(1, 1, [LaneRange(KEY, 0, 1)], written))
    again = plain(tmp_path)
    assert again.columns == after == files.columns
    assert again.last_run == 1
    assert again.positions == {}
    assert again.state == files.state
    assert pq.read_table(named(again)[0])["new"].to_pylist() == [{"x": 1}]
    with pytest.raises(ConflictingColumn):
        again.evolve(pa.schema([("new", pa.int64())]))
    assert again.evolve(pa.schema([("new", pa.struct([("x", pa.int64())]))])).field("new").type == (
        pa.struct([("x", pa.int64())])
    )
