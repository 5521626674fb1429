"""A lake on S3: a small S3 in this process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from packetboat.models.export_runs import LaneRange

from harness.export_specs import maintenance
from spark_exports.lake.commit import Commit
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.maintenance import compact, expire_snapshots, remove_orphans
from spark_exports.lake.plain import PlainFiles
from spark_exports.lake.rows import rows_of
from spark_exports.lake.storage import LakeFileIO, list_files
from spark_exports.order import LakeSettings
from tests.unit.spark_exports.lake.lake_support import (
    COLUMNS,
    KEY,
    files_named,
    lane,
    of_lane,
    open_table,
    rows,
    write,
    written,
)

LATER_S = 4e9


@pytest.fixture
def settings(tmp_path: Path, s3_storage: dict[str, str]) -> LakeSettings:
    return LakeSettings(
        name="default",
        warehouse=f"s3://lake/{secrets.token_hex(4)}",
        catalog={"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"},
        storage=s3_storage,
    )


@pytest.fixture
def lake(settings: LakeSettings) -> Iterator[Lake]:
    with Lake(settings) as lake:
        yield lake


def stored(settings: LakeSettings, suffix: str = ".parquet") -> set[str]:
    files = list_files(LakeFileIO(dict(settings.storage)), settings.warehouse)
    return {file.location for file in files if file.location.endswith(suffix)}


def test_a_tables_whole_life(lake: Lake, settings: LakeSettings) -> None:
    table = open_table(lake, Layout("day", 2))
    for number, at in enumerate(range(0, 80, 20), 1):
        ranges = [LaneRange(KEY, at, at + 20)]
        table.commit(Commit(number, 1, ranges, written(table, number, ranges)))
    again = [LaneRange(KEY, 15, 35)]
    done = table.commit(Commit(5, 1, again, written(table, 5, again), replace=True))
    assert done.removed_files > 0
    assert rows(table) == of_lane(0, 80)
    before = rows_of(table)

    written(table, 4, again, attempt=2)
    compact(table, maintenance(), 6, 1, now_s=LATER_S)
    expire_snapshots(table, maintenance(keep_snapshots_s=0), now_s=LATER_S)
    removed = remove_orphans(table, maintenance(orphans_after_s=60), 7, 1, now_s=LATER_S)

    assert removed.files > 0
    assert stored(settings) == files_named(table)
    assert rows(table) == of_lane(0, 80)
    assert rows_of(table) == before


def test_a_task_that_dies_leaves_no_object(lake: Lake, settings: LakeSettings) -> None:
    writer = open_table(lake, Layout("none")).writer(1, 1, target_file_bytes=1)
    with pytest.raises(ValueError, match="stranger"):
        write(writer, lane(0, 50), lane(50, 60).rename_columns(["stranger", *COLUMNS.names[1:]]))
    assert stored(settings) == set()


def test_plain_files(settings: LakeSettings) -> None:
    files = PlainFiles(settings, "acme", "plain", COLUMNS, Layout("day"))
    ranges = [LaneRange(KEY, 0, 30)]
    for already in (False, True):
        done = files.commit(Commit(1, 1, ranges, write(files.writer(1, 1), lane(0, 30))))
        assert done.already is already
    (manifest,) = stored(settings, ".json")
    assert manifest.endswith("/acme/plain/_manifests/run-1.json")
    assert len(stored(settings)) == 2
    tables = []
    for location in stored(settings):
        with LakeFileIO(dict(settings.storage)).new_input(location).open() as stream:
            tables.append(pq.read_table(stream))
    assert sum(table.num_rows for table in tables) == 30
