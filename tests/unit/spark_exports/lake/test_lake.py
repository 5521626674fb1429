"""Tables are found, made once, and those of others are left alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from packetboat.models.export_runs import LaneRange

from spark_exports.lake.commit import Commit
from spark_exports.lake.envelope import ENVELOPE
from spark_exports.lake.errors import ConflictingColumn, LayoutDiffers, NotOurTable, TableGone
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from tests.unit.spark_exports.lake.lake_support import (
    BY_DAY,
    COLUMNS,
    KEY,
    batch,
    local_lake,
    message,
    open_table,
    rows,
    write,
    written,
)


def test_a_table_is_made_once(lake: Lake, tmp_path: Path) -> None:
    assert lake.find("acme", "orders") is None
    table = open_table(lake)
    assert table.columns == COLUMNS
    assert table.positions == {}
    assert table.last_run == 0
    assert table.state.location == f"{tmp_path}/lake/acme/orders"
    assert table.state.snapshot_id is None
    found = lake.find("acme", "orders")
    assert found is not None
    assert found.state == open_table(lake).state == table.state


def test_many_make_a_table_at_the_same_moment(tmp_path: Path) -> None:
    def make(_: int) -> str:
        with local_lake(tmp_path) as lake:
            return str(open_table(lake).iceberg.metadata.table_uuid)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(make, range(6)))) == 1


def test_a_table_of_another_is_not_written(lake: Lake) -> None:
    lake.open("acme", "orders", COLUMNS, BY_DAY, owner="acme/one")
    for owner in ("acme/two", None):
        with pytest.raises(NotOurTable, match="acme/one"):
            lake.open("acme", "orders", COLUMNS, BY_DAY, owner=owner)
    lake._catalog.create_table(("acme", "by-hand"), ENVELOPE)
    with pytest.raises(NotOurTable, match="not made by an export"):
        lake.find("acme", "by-hand")


@pytest.mark.parametrize("other", [Layout("hour"), Layout("none"), Layout("day", 4)])
def test_a_table_of_another_layout_is_not_written(lake: Lake, other: Layout) -> None:
    open_table(lake)
    with pytest.raises(LayoutDiffers):
        open_table(lake, other)


def test_a_place_with_files_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    """Files of a dropped table are there, and removing orphans would delete them."""
    first = open_table(lake)
    lake._catalog.drop_table(("acme", "orders"))
    second = open_table(lake)
    assert second.state.location != first.state.location
    assert second.state.location.startswith(f"{tmp_path}/lake/acme/orders-")


def test_a_table_that_is_gone_says_so(lake: Lake) -> None:
    table = open_table(lake)
    lake._catalog.drop_table(("acme", "orders"))
    with pytest.raises(TableGone):
        table.refresh()
    open_table(lake)
    with pytest.raises(TableGone):
        table.commit(Commit(1, 1, [], []))


def test_a_table_evolves(lake: Lake) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 3)]
    table.commit(Commit(1, 1, ranges, written(table, 1, ranges)))
    new = pa.schema(
        [
            ("who", pa.struct([("name", pa.string())])),
            ("tags", pa.list_(pa.string())),
            ("n", pa.int32()),
            ("price", pa.decimal128(5, 2)),
            ("in.side", pa.int64()),
        ]
    )
    after = table.evolve(new)
    assert after == table.columns
    assert after.names == [*COLUMNS.names, "who", "tags", "n", "price", "in.side"]
    wider = pa.schema(
        [
            ("n", pa.int64()),
            ("price", pa.decimal128(9, 2)),
            ("who", pa.struct([("age", pa.int64()), ("of", pa.struct([("x", pa.bool_())]))])),
        ]
    )
    after = table.evolve(wider)
    assert after.field("n").type == pa.int64()
    assert after.field("price").type == pa.decimal128(9, 2)
    assert [field.name for field in after.field("who").type] == ["name", "age", "of"]
    assert table.evolve(wider) == after == open_table(lake).columns

    one = message(3, who={"age": 7, "of": {"x": True}}, tags=["a"], n=1 << 40)
    files = write(table.writer(2, 1), batch([one], after))
    table.commit(Commit(2, 1, [LaneRange(KEY, 3, 4)], files))
    found = table.iceberg.scan().to_arrow().sort_by("offset")
    assert found["n"].to_pylist() == [None, None, None, 1 << 40]
    assert found["who"][3].as_py() == {"name": None, "age": 7, "of": {"x": True}}


def test_two_evolve_a_table_at_once(lake: Lake) -> None:
    first, second = open_table(lake), open_table(lake)
    first.evolve(pa.schema([("a", pa.int64())]))
    assert second.evolve(pa.schema([("b", pa.int64())])).names[-2:] == ["a", "b"]


def test_a_conflict_changes_nothing(lake: Lake) -> None:
    table = open_table(lake)
    wanted = pa.schema([("new", pa.int64()), ("amount", pa.string()), ("Topic", pa.string())])
    with pytest.raises(ConflictingColumn) as raised:
        table.evolve(wanted)
    assert [each.path for each in raised.value.conflicts] == [("amount",), ("Topic",)]
    assert open_table(lake).columns == COLUMNS
    with pytest.raises(ConflictingColumn):
        lake.open("acme", "new", pa.schema([*COLUMNS, ("TOPIC", pa.int64())]), BY_DAY)
    assert lake.find("acme", "new") is None


def test_old_files_are_read_with_widened_columns(lake: Lake) -> None:
    narrow = pa.schema([*COLUMNS, ("n", pa.int32()), ("x", pa.float32())])
    table = open_table(lake, columns=narrow)
    files = write(table.writer(1, 1), batch([message(0, n=1, x=0.5)], narrow))
    table.commit(Commit(1, 1, [LaneRange(KEY, 0, 1)], files))
    table.evolve(pa.schema([("n", pa.int64()), ("x", pa.float64())]))
    found = table.iceberg.scan(row_filter="n = 1").to_arrow()
    assert found["n"].to_pylist() == [1]
    assert found["x"].type == pa.float64()
    assert rows(table) == [("orders", 0, 0, 0)]
