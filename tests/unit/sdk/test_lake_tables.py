"""A read of an export's table opens only files that may have the rows, and holds few rows
at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from packetboat.lake import tables
from packetboat.lake.tables import HistoryTable, files_of
from packetboat.models.exports import Export

from tests.unit.sdk.history_server import CREATED
from tests.unit.sdk.lake_support import TOPIC, Lake, LakeTable, published, row


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LakeTable]:
    """Yield a table of three files with a hundred rows each, the last of another partition."""
    lake = Lake(tmp_path)
    made = lake.table("t", pa.field("n", pa.int64()))
    for begin, partition in ((0, 0), (100, 0), (0, 1)):
        made.append([row(begin + at, partition, n=at) for at in range(100)])
    yield made
    lake.close()


def opened(made: LakeTable) -> HistoryTable:
    plain = {"name": "e", "topic": TOPIC, "table": "t", "table_state": made.state}
    export = msgspec.convert({**plain, "created_at": CREATED, "updated_at": CREATED}, Export)
    return HistoryTable(export, TOPIC, {})


def test_files_are_chosen_by_what_is_said_of_them(made: LakeTable) -> None:
    files = files_of(made.table, TOPIC)

    def chosen(partition: int, start: int, end: int | None, after_s: int | None = None) -> int:
        since = None if after_s is None else published(after_s)
        return sum(file.may_have(partition, 0, start, end, since) for file in files)

    assert (chosen(0, 0, None), chosen(1, 0, None), chosen(2, 0, None)) == (2, 1, 0)
    assert (chosen(0, 0, 100), chosen(0, 99, 101), chosen(0, 200, 300)) == (1, 2, 0)
    assert (chosen(0, 0, None, 100), chosen(0, 0, None, 200)) == (1, 0)
    assert files_of(made.table, "other") == []


def test_rows_come_in_windows(made: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window has no more than may be held, and is as large as the rows before allow."""
    monkeypatch.setattr(tables, "FIRST_WINDOW_OFFSETS", 10)
    table = opened(made)
    assert len(table.rows(0, 0, 0, 200)) == 10
    assert len(table.rows(0, 0, 10, 200)) == 20
    monkeypatch.setattr(tables, "WINDOW_BYTES", 1)
    assert len(table.rows(0, 0, 30, 200)) == 40
    assert len(table.rows(0, 0, 70, 200)) == 1


def test_what_it_has(made: LakeTable) -> None:
    table = opened(made)
    assert (table.position(0, 0), table.position(1, 0), table.position(2, 0)) == (200, 100, 0)
    assert (table.first(0, 0), table.first(0, 0, start=150), table.first(1, 0, start=100)) == (
        *(0, 150),
        None,
    )
    assert table.first(0, 0, since=published(120)) == 120
    assert table.rows(1, 0, 100, 200) == []
