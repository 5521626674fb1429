"""Small lakes in a directory, and messages to put into them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from packetboat.models.export_runs import LaneKey, LaneRange
from sqlalchemy import event
from sqlalchemy.engine import Engine

from spark_exports.lake.envelope import ENVELOPE, RESCUED
from spark_exports.lake.files import FileWriter, WrittenFile
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.table import LakeTable
from spark_exports.order import LakeSettings

TENANT = "acme"
TABLE = "orders"
KEY = LaneKey("orders", "uid-1", 0, 0)
OTHER = LaneKey("orders", "uid-1", 1, 0)
COLUMNS = pa.schema([*ENVELOPE, (RESCUED, pa.string()), ("amount", pa.int64())])
START = datetime(2026, 3, 1, tzinfo=UTC)
BY_DAY = Layout("day")


def local_settings(directory: Path) -> LakeSettings:
    """Return settings with files in the directory, and the catalog in SQLite beside them."""
    return LakeSettings(
        name="default",
        warehouse=str(directory / "lake"),
        catalog={"type": "sql", "uri": f"sqlite:///{directory}/catalog.db"},
    )


@contextmanager
def local_lake(directory: Path) -> Iterator[Lake]:
    with Lake(local_settings(directory)) as lake:
        yield lake


@contextmanager
def without_fsync() -> Iterator[None]:
    """Replace fsync, also that of SQLite: no test here cuts the power."""
    event.listen(Engine, "connect", _without_fsync)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
    event.remove(Engine, "connect", _without_fsync)


def _without_fsync(connection: Any, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def open_table(lake: Lake, layout: Layout = BY_DAY, columns: pa.Schema = COLUMNS) -> LakeTable:
    return lake.open(TENANT, TABLE, columns, layout)


def message(offset: int, lane: LaneKey = KEY, /, **more: Any) -> dict[str, Any]:
    """Return a message; there is one an hour, from 1 March 2026."""
    return {
        "topic": lane.topic,
        "message_id": f"{lane.partition}-{lane.lane}-{offset}",
        "partition": lane.partition,
        "lane": lane.lane,
        "offset": offset,
        "publish_time": START + timedelta(hours=offset),
        "key": f"key-{offset % 7}",
        "attributes": [("n", str(offset))],
        "content_type": "application/json",
        "data": b"{}",
        "amount": offset,
    } | more


def batch(messages: Iterable[dict[str, Any]], columns: pa.Schema = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(messages), schema=columns)


def lane(start: int, end: int, key: LaneKey = KEY, columns: pa.Schema = COLUMNS) -> pa.RecordBatch:
    return batch((message(offset, key) for offset in range(start, end)), columns)


def write(writer: FileWriter, *batches: pa.RecordBatch) -> list[WrittenFile]:
    """Write files as a task does."""
    return [
        WrittenFile.from_bytes(encoded)
        for written in writer(iter(batches))
        for encoded in written.column("file").to_pylist()
    ]


def written(
    table: LakeTable, run: int, ranges: Sequence[LaneRange], attempt: int = 1
) -> list[WrittenFile]:
    """Write the files of an attempt that read these ranges."""
    batches = [lane(each.start, each.end, each.key) for each in ranges]
    return write(table.writer(run, attempt), *batches)


def rows(table: LakeTable) -> list[tuple[str, int, int, int]]:
    """Return the rows that a reader finds, in order, with duplicates."""
    table.refresh()
    found = table.iceberg.scan(selected_fields=("topic", "partition", "lane", "offset")).to_arrow()
    return sorted(
        zip(
            found["topic"].to_pylist(),
            found["partition"].to_pylist(),
            found["lane"].to_pylist(),
            found["offset"].to_pylist(),
            strict=True,
        )
    )


def of_lane(start: int, end: int, key: LaneKey = KEY) -> list[tuple[str, int, int, int]]:
    return [(key.topic, key.partition, key.lane, offset) for offset in range(start, end)]


def files_below(directory: Path) -> set[str]:
    return {str(path) for path in directory.rglob("*.parquet")}


def files_named(table: LakeTable) -> set[str]:
    """Return the files that the current snapshot names."""
    table.refresh()
    return {task.file.file_path for task in table.iceberg.scan().plan_files()}
