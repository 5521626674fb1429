"""The result of a commit to a table that is unchanged, has moved on, or has the run already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packetboat.models.export_runs import LaneKey, LaneRange

from spark_exports.lake.commit import ATTEMPT, POSITIONS, RANGES, RUN, Commit
from spark_exports.lake.errors import AheadOfTable, NamesakeTopic, Superseded
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    OTHER,
    files_below,
    files_named,
    of_lane,
    open_table,
    rows,
    written,
)


def run(number: int, *ranges: LaneRange, attempt: int = 1) -> Commit:
    return Commit(number, attempt, list(ranges), [])


def test_positions_and_rows_come_together(lake: Lake) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 30), LaneRange(OTHER, 5, 9)]
    done = table.commit(Commit(1, 1, ranges, written(table, 1, ranges)))
    assert not done.already
    assert done.positions == {KEY: 30, OTHER: 9} == table.positions
    assert table.last_run == 1
    assert done.state == table.state
    assert done.state.identifier == "acme.orders"
    assert rows(table) == [*of_lane(0, 30), *of_lane(5, 9, OTHER)]

    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary[RUN] == "1"
    assert snapshot.summary[ATTEMPT] == table.iceberg.properties[ATTEMPT]
    assert json.loads(snapshot.summary[RANGES] or "")[0] == ["orders", "uid-1", 0, 0, 0, 30]
    assert json.loads(table.iceberg.properties[POSITIONS])[0] == ["orders", "uid-1", 0, 0, 30]


def test_the_next_run_goes_on(lake: Lake) -> None:
    table = open_table(lake)
    for number, at in enumerate(range(0, 50, 10), 1):
        ranges = [LaneRange(KEY, at, at + 10)]
        assert not table.commit(Commit(number, 1, ranges, written(table, number, ranges))).already
    assert rows(table) == of_lane(0, 50)


def test_a_run_without_rows_moves_positions(lake: Lake) -> None:
    table = open_table(lake)
    assert not table.commit(run(1, LaneRange(KEY, 0, 7), LaneRange(OTHER, 3, 3))).already
    assert table.positions == {KEY: 7, OTHER: 3}
    assert table.last_run == 1
    assert rows(table) == []
    assert table.commit(run(1, LaneRange(KEY, 0, 7), attempt=2)).already


def test_a_run_commits_once(lake: Lake, tmp_path: Path) -> None:
    ranges = [LaneRange(KEY, 0, 30)]
    first, second = open_table(lake), open_table(lake)
    of_first, of_second = written(first, 1, ranges), written(second, 1, ranges, 2)
    assert not first.commit(Commit(1, 1, ranges, of_first)).already
    done = second.commit(Commit(1, 2, ranges, of_second))
    assert done.already
    assert done.positions == {KEY: 30}
    assert rows(second) == of_lane(0, 30)
    # The files of the second attempt can never be named.
    assert files_below(tmp_path) == {file.location for file in of_first} == files_named(first)


def test_what_a_run_counted_is_found_by_whoever_tells_of_it(lake: Lake) -> None:
    table = open_table(lake)
    counts = {"rows": 5, "rejected": 1}
    for run in (1, 2):
        ranges = [LaneRange(KEY, 5 * run - 5, 5 * run)]
        table.commit(Commit(run, 1, ranges, [], counts=counts if run == 1 else {}))
    again = open_table(lake)
    assert again.counts_of(1) == counts
    assert again.counts_of(2) == again.counts_of(3) == {}


def test_to_commit_the_same_files_again_keeps_them(lake: Lake, tmp_path: Path) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 30)]
    commit = Commit(1, 1, ranges, written(table, 1, ranges))
    table.commit(commit)
    assert table.commit(commit).already
    assert open_table(lake).commit(commit).already
    assert files_below(tmp_path) == files_named(table)
    assert rows(table) == of_lane(0, 30)


def test_what_was_planned_for_other_positions_is_superseded(lake: Lake, tmp_path: Path) -> None:
    table = open_table(lake)
    table.commit(run(1, LaneRange(KEY, 0, 10)))
    for ranges in (
        [LaneRange(KEY, 0, 20)],
        [LaneRange(KEY, 11, 20)],
        [LaneRange(OTHER, 0, 5), LaneRange(KEY, 9, 9)],
    ):
        with pytest.raises(Superseded):
            table.commit(Commit(2, 1, ranges, written(table, 2, ranges)))
    assert table.positions == {KEY: 10}
    assert rows(table) == []
    assert files_below(tmp_path) == set()


def test_an_earlier_run_never_comes_in_after_a_later_one(lake: Lake, tmp_path: Path) -> None:
    """Also where it would fit: what a later run has fenced off may have been deleted."""
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 10)]
    zombie = written(table, 1, ranges)
    table.commit(run(2))
    with pytest.raises(Superseded):
        table.commit(Commit(1, 1, ranges, zombie))
    assert files_below(tmp_path) == set()


def test_an_earlier_run_whose_ranges_are_there_is_done(lake: Lake) -> None:
    table = open_table(lake)
    table.commit(run(2, LaneRange(KEY, 0, 30)))
    assert table.commit(run(1, LaneRange(KEY, 0, 30))).already
    assert table.last_run == 2


def test_a_second_part_of_a_run_may_follow(lake: Lake) -> None:
    """A run is planned again after its first commit, and loses nothing."""
    table = open_table(lake)
    table.commit(run(1, LaneRange(KEY, 0, 10)))
    ranges = [LaneRange(KEY, 10, 12)]
    assert not table.commit(Commit(1, 2, ranges, written(table, 1, ranges, 2))).already
    assert rows(table) == of_lane(10, 12)


def test_nonsense_is_refused(lake: Lake) -> None:
    table = open_table(lake)
    for commit in (
        run(1, LaneRange(KEY, 0, 5), LaneRange(KEY, 5, 9)),
        run(1, LaneRange(KEY, 5, 4)),
        run(0),
    ):
        with pytest.raises(ValueError, match=r"range|numbered"):
            table.commit(commit)
    assert table.last_run == 0


def test_files_of_another_partitioning_are_refused(lake: Lake) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 5)]
    files = written(table, 1, ranges)
    with table.iceberg.update_spec() as update:
        update.remove_field("publish_day")
    with pytest.raises(Superseded, match="partitioned"):
        table.commit(Commit(1, 1, ranges, files))


@pytest.mark.parametrize("layout", [Layout("day"), Layout("hour", 4), Layout("none")])
def test_a_backfill_puts_rows_in_the_place_of_rows(
    lake: Lake, tmp_path: Path, layout: Layout
) -> None:
    table = open_table(lake, layout)
    ranges = [LaneRange(KEY, 0, 60), LaneRange(OTHER, 0, 60)]
    table.commit(Commit(1, 1, ranges, written(table, 1, ranges)))
    again = [LaneRange(KEY, 10, 20), LaneRange(KEY, 30, 50), LaneRange(OTHER, 59, 60)]
    for number in (2, 3):
        files = written(table, number, again)
        done = table.commit(Commit(number, 1, again, files, replace=True))
        assert not done.already
        assert done.removed_files > 0
        assert done.positions == {KEY: 60, OTHER: 60}
        assert rows(table) == [*of_lane(0, 60), *of_lane(0, 60, OTHER)]
        assert {file.location for file in files} <= files_named(table)
        assert table.commit(Commit(number, 2, again, files, replace=True)).already
    assert table.last_run == 3


def test_a_backfill_without_rows_takes_rows_out(lake: Lake) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 60)]
    table.commit(Commit(1, 1, ranges, written(table, 1, ranges)))
    table.commit(Commit(2, 1, [LaneRange(KEY, 0, 24), LaneRange(KEY, 50, 51)], [], replace=True))
    assert rows(table) == [*of_lane(24, 50), *of_lane(51, 60)]


def test_a_backfill_moves_a_position_only_where_it_leaves_no_gap(lake: Lake) -> None:
    table = open_table(lake)
    table.commit(run(1, LaneRange(KEY, 0, 10)))
    ranges = [LaneRange(KEY, 5, 15)]
    files = written(table, 2, ranges)
    done = table.commit(Commit(2, 1, ranges, files, replace=True))
    assert done.positions == {KEY: 15}
    for ahead in (LaneRange(KEY, 16, 20), LaneRange(OTHER, 0, 5)):
        with pytest.raises(AheadOfTable):
            table.commit(Commit(3, 1, [ahead], [], replace=True))
    assert rows(table) == of_lane(5, 15)


def test_a_backfill_after_a_later_run_is_superseded(lake: Lake) -> None:
    table = open_table(lake)
    table.commit(run(1, LaneRange(KEY, 0, 10)))
    table.commit(run(3, LaneRange(KEY, 10, 11)))
    with pytest.raises(Superseded):
        table.commit(Commit(2, 1, [LaneRange(KEY, 0, 5)], [], replace=True))
    # The snapshots still name run 1.
    assert table.commit(Commit(1, 1, [LaneRange(KEY, 0, 5)], [], replace=True)).already


def test_a_backfill_cannot_tell_topics_of_one_name_apart(lake: Lake) -> None:
    table = open_table(lake)
    table.commit(run(1, LaneRange(KEY, 0, 10), LaneRange(LaneKey("orders", "uid-2", 0, 0), 0, 10)))
    with pytest.raises(NamesakeTopic):
        table.commit(Commit(2, 1, [LaneRange(KEY, 0, 5)], [], replace=True))
