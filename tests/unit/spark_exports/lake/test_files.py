"""Data files: where they are cut, what is said of them, what is left when a task dies."""

from __future__ import annotations

import pickle
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packetboat.models.export_runs import LaneRange
from pyiceberg.conversions import from_bytes

from spark_exports.lake.commit import Commit
from spark_exports.lake.files import FileWriter, OpenFiles, WrittenFile
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.table import LakeTable
from tests.unit.spark_exports.lake.lake_support import (
    COLUMNS,
    KEY,
    batch,
    files_below,
    lane,
    message,
    open_table,
    rows,
    write,
)


def narrowed(writer: FileWriter, **to: Any) -> FileWriter:
    return FileWriter(msgspec.structs.replace(writer.destination, **to))


def bound(table: LakeTable, name: str, encoded: bytes) -> Any:
    field = table.iceberg.schema().find_field(name)
    return from_bytes(field.field_type, encoded)  # type: ignore[arg-type]


def test_a_file_for_each_partition(lake: Lake) -> None:
    files = write(open_table(lake).writer(3, 1), lane(0, 60))
    assert sorted(file.rows for file in files) == [12, 24, 24]
    assert len({file.partition for file in files}) == 3
    assert all("/data/run-3/attempt-1-" in file.location for file in files)


def test_files_are_cut_at_the_target(lake: Lake) -> None:
    table = open_table(lake, Layout("none"))
    wide = [
        batch(message(offset, data=secrets.token_bytes(2000)) for offset in range(at, at + 10))
        for at in range(0, 100, 10)
    ]
    files = write(table.writer(1, 1, target_file_bytes=50_000), *wide)
    assert len(files) == 4
    assert all(file.file_bytes < 100_000 for file in files)
    assert [Path(file.location).stat().st_size for file in files] == [
        file.file_bytes for file in files
    ]
    assert sum(file.rows for file in files) == 100


def test_few_files_are_open_at_a_time(lake: Lake) -> None:
    writer = narrowed(open_table(lake).writer(1, 1), max_open_files=2)
    files = write(writer, lane(0, 24 * 5), lane(0, 24))
    # The first day was finished early, so it has two.
    assert len(files) == 6
    assert len({file.partition for file in files}) == 5


def test_little_is_kept_in_memory(lake: Lake) -> None:
    to = msgspec.structs.replace(open_table(lake).writer(1, 1).destination, max_buffered_bytes=5000)
    with OpenFiles(to) as files:
        for hour in range(24 * 4):
            files.add(lane(hour, hour + 1))
            assert sum(file.buffered_bytes for file in files._open.values()) <= 5000
        assert sum(file.rows for file in files.finish()) == 24 * 4


def test_one_huge_batch_becomes_several_row_groups(lake: Lake) -> None:
    writer = narrowed(open_table(lake, Layout("none")).writer(1, 1), row_group_bytes=100_000)
    body = secrets.token_bytes(20_000)
    (file,) = write(writer, batch(message(offset, data=body) for offset in range(50)))
    assert pq.ParquetFile(file.location).num_row_groups == 10


def test_columns_have_icebergs_ids(lake: Lake) -> None:
    table = open_table(lake)
    (file,) = write(table.writer(1, 1), lane(0, 3))
    found = pq.read_schema(file.location)
    assert found.names == COLUMNS.names
    for field in table.iceberg.schema().fields:
        assert found.field(field.name).metadata[b"PARQUET:field_id"] == b"%d" % field.field_id
    assert pq.ParquetFile(file.location).metadata.row_group(0).column(0).compression == "ZSTD"


def test_bounds_are_those_of_the_rows(lake: Lake) -> None:
    table = open_table(lake)
    (file,) = write(table.writer(1, 1), lane(5, 20))
    field_id = table.iceberg.schema().find_field("offset").field_id
    assert bound(table, "offset", file.lower_bounds[field_id]) == 5
    assert bound(table, "offset", file.upper_bounds[field_id]) == 19
    assert file.rows == 15
    assert file.split_offsets


def test_a_column_with_a_value_too_long_for_bounds_has_none(lake: Lake) -> None:
    """Parquet leaves bounds out where values are long. Those of the other row groups are not the
    file's: a reader who believes them would not find the long one."""
    table = open_table(lake, Layout("none"))
    writer = narrowed(table.writer(1, 1), row_group_bytes=1)
    long = "z" * 9000
    files = write(writer, batch([message(0, key="a")]), batch([message(1, key=long)]))
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 2)], files))
    assert len(files) == 1
    assert len(table.iceberg.scan(row_filter=f"key = '{long}'").to_arrow()) == 1
    assert len(table.iceberg.scan(row_filter="offset = 1").to_arrow()) == 1


@pytest.mark.parametrize("layout", [Layout("hour", 3), Layout("day"), Layout("none")])
def test_times_from_the_year_1_to_9999_to_the_microsecond(lake: Lake, layout: Layout) -> None:
    times = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, 0, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ]
    table = open_table(lake, layout)
    files = write(
        table.writer(1, 1),
        batch(message(offset, publish_time=time) for offset, time in enumerate(times)),
    )
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 5)], files))
    found = table.iceberg.scan(selected_fields=("offset", "publish_time")).to_arrow()
    assert sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True)) == (
        list(enumerate(times))
    )
    for offset, time in enumerate(times):
        exact = table.iceberg.scan(row_filter=f"publish_time = '{time.isoformat()}'").to_arrow()
        assert exact["offset"].to_pylist() == [offset]


def test_a_task_that_dies_leaves_no_files(lake: Lake, tmp_path: Path) -> None:
    def batches() -> Any:
        yield lane(0, 100)
        raise RuntimeError("the source is gone")

    writer = narrowed(open_table(lake).writer(1, 1), max_open_files=1)
    with pytest.raises(RuntimeError, match="the source is gone"):
        list(writer(batches()))
    assert files_below(tmp_path) == set()


def test_no_rows_no_files(lake: Lake) -> None:
    assert write(open_table(lake).writer(1, 1)) == []
    assert write(open_table(lake).writer(1, 1), lane(0, 0)) == []


def test_missing_columns_are_null_and_unknown_ones_refused(lake: Lake) -> None:
    table = open_table(lake)
    short = lane(0, 3).drop_columns(["amount", "key", "data"])
    files = write(table.writer(1, 1), short)
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 3)], files))
    assert table.iceberg.scan().to_arrow()["amount"].to_pylist() == [None] * 3
    with pytest.raises(ValueError, match="stranger"):
        write(table.writer(1, 1), lane(0, 1).append_column("stranger", pa.array([1])))


def test_nested_values_come_as_any_of_arrows_twins(lake: Lake) -> None:
    deep = pa.schema(
        [*COLUMNS, ("who", pa.struct([("a", pa.list_(pa.string())), ("b", pa.int64())]))]
    )
    table = open_table(lake, columns=deep)
    large = lane(0, 2).append_column(
        "who",
        pa.array(
            [{"b": 1, "a": ["x"]}, None],
            pa.struct([("b", pa.int32()), ("a", pa.large_list(pa.large_string()))]),
        ),
    )
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 2)], write(table.writer(1, 1), large)))
    found = table.iceberg.scan().to_arrow().sort_by("offset")
    assert found["who"].to_pylist() == [{"a": ["x"], "b": 1}, None]


def test_what_a_worker_gets_and_gives_can_be_carried(lake: Lake) -> None:
    table = open_table(lake, Layout("day", 2))
    writer = pickle.loads(pickle.dumps(table.writer(1, 1)))
    files = write(writer, lane(0, 30))
    assert [WrittenFile.from_bytes(file.to_bytes()) for file in files] == files
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 30)], files))
    assert len(rows(table)) == 30


def test_names_with_odd_characters(lake: Lake) -> None:
    odd = pa.schema(
        [
            *COLUMNS,
            ("a b", pa.int64()),
            ("1st", pa.int64()),
            ("x.y", pa.int64()),
            ("né", pa.int64()),
        ]
    )
    table = open_table(lake, columns=odd)
    values = {"a b": 1, "1st": 2, "x.y": 3, "né": 4}
    files = write(table.writer(1, 1), batch([message(0, **values)], odd))
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 1)], files))
    found = table.iceberg.scan().to_arrow()
    assert {name: found[name][0].as_py() for name in values} == values
