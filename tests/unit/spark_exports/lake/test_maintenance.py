"""Upkeep changes no rows, and deletes nothing that anyone may still name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packetboat.models.export_runs import LaneRange
from pyiceberg.table.snapshots import Operation

from harness.export_specs import maintenance
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import ListingDiffers, Superseded
from spark_exports.lake.files import OpenFiles
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.live import data_locations, metadata_locations
from spark_exports.lake.maintenance import (
    Compacted,
    Removed,
    compact,
    expire_snapshots,
    remove_orphans,
)
from spark_exports.lake.table import LakeTable
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    OTHER,
    START,
    files_below,
    files_named,
    lane,
    of_lane,
    open_table,
    rows,
    write,
    written,
)

NOW_S = time.time() + 3600
"""Later than all that tests do: what is here is old."""
AT_ONCE = maintenance(keep_snapshots_s=0, orphans_after_s=0)


def filled(table: LakeTable, runs: int, each: int = 12) -> None:
    """Commit small files of several runs, of two lanes."""
    for run in range(1, runs + 1):
        ranges = [LaneRange(key, (run - 1) * each, run * each) for key in (KEY, OTHER)]
        files = [file for each in ranges for file in written(table, run, [each])]
        table.commit(Commit(run, 1, ranges, files))


def expected(runs: int, each: int = 12) -> list[tuple[str, int, int, int]]:
    return [*of_lane(0, runs * each), *of_lane(0, runs * each, OTHER)]


def snapshot_summary(table: LakeTable) -> dict[str, str]:
    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


LAYOUTS = [Layout("day"), Layout("day", 2), Layout("none"), Layout("hour")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_small_files_become_one_a_partition(lake: Lake, layout: Layout) -> None:
    table = open_table(lake, layout)
    filled(table, 10)
    before = files_named(table)
    positions = table.positions

    done = compact(table, maintenance(), 11, 1, now_s=NOW_S)

    assert done.removed_files > done.added_files > 0
    assert rows(table) == expected(10)
    assert table.positions == positions
    assert table.last_run == 11
    after = files_named(table)
    assert len(after) == len(before) - done.removed_files + done.added_files
    partitions = [str(task.file.partition) for task in table.iceberg.scan().plan_files()]
    assert len(set(partitions)) == len(partitions)
    assert snapshot_summary(table)["operation"] == Operation.REPLACE.value
    assert snapshot_summary(table)["total-records"] == str(len(expected(10)))
    assert compact(table, maintenance(), 12, 1, now_s=NOW_S) == Compacted()


def test_joined_rows_are_in_order(lake: Lake) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 20), LaneRange(OTHER, 0, 20)]
    batches = [lane(12, 20, OTHER), lane(10, 20), lane(0, 10), lane(0, 12, OTHER)]
    files = [file for each in batches for file in write(table.writer(1, 1), each)]
    table.commit(Commit(1, 1, ranges, files))
    compact(table, maintenance(), 2, 1, now_s=NOW_S)
    (only,) = files_named(table)
    found = pq.read_table(only)
    assert list(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)) == [
        *((0, offset) for offset in range(20)),
        *((1, offset) for offset in range(20)),
    ]


def test_partitions_that_still_grow_are_left(lake: Lake) -> None:
    table = open_table(lake)
    filled(table, 4)
    first_day_over = START.timestamp() + 86_400
    assert compact(table, maintenance(), 5, 1, now_s=first_day_over - 1) == Compacted()
    compact(table, maintenance(), 5, 1, now_s=first_day_over)
    files = [task.file for task in table.iceberg.scan().plan_files()]
    assert sorted(file.record_count for file in files) == [12, 12, 12, 12, 48]
    assert rows(table) == expected(4)


def test_large_files_are_left_and_joins_stay_below_the_target(lake: Lake) -> None:
    table = open_table(lake, Layout("none"))
    filled(table, 12)
    size = max(task.file.file_size_in_bytes for task in table.iceberg.scan().plan_files())
    done = compact(table, maintenance(target_file_bytes=size * 4), 13, 1, now_s=NOW_S)
    assert 3 <= done.added_files <= 6
    assert rows(table) == expected(12)
    assert compact(table, maintenance(target_file_bytes=size), 14, 1, now_s=NOW_S) == Compacted()


def test_old_files_get_new_columns(lake: Lake) -> None:
    table = open_table(lake)
    filled(table, 2)
    table.evolve(pa.schema([("new", pa.struct([("x", pa.int64())]))]))
    compact(table, maintenance(), 3, 1, now_s=NOW_S)
    assert rows(table) == expected(2)
    assert table.iceberg.scan().to_arrow()["new"].null_count == 48


def test_an_overtaken_compaction_leaves(lake: Lake, tmp_path: Path) -> None:
    table = open_table(lake)
    filled(table, 4)
    overtaken = False

    def run_tasks(work: Callable[..., object], items: object) -> list[object]:
        nonlocal overtaken
        done = [work(item) for item in items]  # type: ignore[attr-defined]
        if not overtaken:
            overtaken = True
            compact(open_table(lake), maintenance(), 5, 2, now_s=NOW_S)
        return done

    with pytest.raises(Superseded, match="gone"):
        compact(table, maintenance(), 5, 1, run_tasks, now_s=NOW_S)  # type: ignore[arg-type]
    assert rows(table) == expected(4)
    assert files_below(tmp_path) == data_locations(table.iceberg)
    with pytest.raises(Superseded, match="run 5"):
        compact(table, maintenance(), 4, 1, now_s=NOW_S)


def test_compaction_that_loses_rows_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(lake)
    filled(table, 3)
    real = OpenFiles.finish
    monkeypatch.setattr(OpenFiles, "finish", lambda self: real(self)[1:])
    with pytest.raises(AssertionError, match="rows of files became"):
        compact(table, maintenance(), 4, 1, now_s=NOW_S)
    assert rows(table) == expected(3)


def test_snapshots_are_forgotten_but_never_the_current_one(lake: Lake) -> None:
    table = open_table(lake)
    assert expire_snapshots(table, AT_ONCE) == 0
    filled(table, 4)
    assert expire_snapshots(table, maintenance()) == 0
    assert expire_snapshots(table, AT_ONCE, now_s=NOW_S) == 3
    assert len(table.iceberg.snapshots()) == 1
    assert expire_snapshots(table, AT_ONCE, now_s=NOW_S) == 0
    assert rows(table) == expected(4)


def test_the_log_of_metadata_is_bounded(lake: Lake) -> None:
    table = open_table(lake)
    for run in range(1, 60):
        table.commit(Commit(run, 1, [], []))
    metadata = list(Path(table.state.location, "metadata").glob("*.metadata.json"))
    assert len(metadata) == 51


def test_manifests_are_joined(lake: Lake) -> None:
    table = open_table(lake)
    with table.iceberg.transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "5"})
    filled(table, 12)
    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.iceberg.io)) < 6
    assert rows(table) == expected(12)


def test_what_is_not_named_is_deleted(lake: Lake, tmp_path: Path) -> None:
    table = open_table(lake)
    filled(table, 4)
    compact(table, maintenance(), 5, 1, now_s=NOW_S)
    expire_snapshots(table, AT_ONCE, now_s=NOW_S)
    written(table, 3, [LaneRange(KEY, 0, 50)], attempt=2)
    done = remove_orphans(table, maintenance(orphans_after_s=60), 6, 1, now_s=NOW_S)
    assert done.files > 8
    assert done.file_bytes > 0
    assert rows(table) == expected(4)
    assert files_below(tmp_path) == files_named(table)
    here = {str(path) for path in tmp_path.joinpath("lake").rglob("*") if path.is_file()}
    table.refresh()
    assert here == data_locations(table.iceberg) | metadata_locations(table.iceberg)
    # The commit before it took the current metadata's place, and no more.
    assert remove_orphans(table, AT_ONCE, 7, 1, now_s=NOW_S) == Removed(0, 0)
    assert rows(table) == expected(4)


def test_files_of_earlier_runs_go_at_once_and_others_when_old(lake: Lake, tmp_path: Path) -> None:
    table, another = open_table(lake), open_table(lake)
    filled(table, 2)
    dead = written(another, 3, [LaneRange(KEY, 24, 30)])
    same_run = written(another, 4, [LaneRange(KEY, 24, 30)])
    later = written(another, 5, [LaneRange(KEY, 24, 30)])

    assert remove_orphans(table, maintenance(), 4, 1).files == len(dead)
    assert files_below(tmp_path) >= {file.location for file in same_run + later}
    assert table.last_run == 4
    # Files that were deleted can never be committed.
    with pytest.raises(Superseded):
        another.commit(Commit(3, 1, [LaneRange(KEY, 24, 30)], dead))

    for file in same_run + later:
        os.utime(file.location, (0, 0))
    own = written(table, 4, [LaneRange(KEY, 24, 25)])
    os.utime(own[0].location, (0, 0))
    assert remove_orphans(table, maintenance(), 4, 1).files == len(same_run + later)
    assert files_below(tmp_path) == files_named(table) | {own[0].location}


def test_a_listing_of_something_else_deletes_nothing(lake: Lake, tmp_path: Path) -> None:
    table = open_table(lake)
    filled(table, 2)
    lost = sorted(files_named(table))[0]
    Path(lost).rename(f"{lost}.away")
    with pytest.raises(ListingDiffers):
        remove_orphans(table, AT_ONCE, 3, 1, now_s=NOW_S)
    assert Path(f"{lost}.away").exists()


def test_an_earlier_maintenance_run_deletes_nothing(lake: Lake, tmp_path: Path) -> None:
    table = open_table(lake)
    filled(table, 3)
    written(table, 1, [LaneRange(KEY, 0, 50)], attempt=2)
    before = files_below(tmp_path)
    with pytest.raises(Superseded):
        remove_orphans(table, AT_ONCE, 2, 1, now_s=NOW_S)
    assert files_below(tmp_path) == before
    assert isinstance(remove_orphans(table, AT_ONCE, 4, 1), Removed)
