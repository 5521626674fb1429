"""A table says of itself what the log says of its messages."""

from __future__ import annotations

from packetboat.models.export_runs import LaneRange

from spark_exports.lake.commit import Commit
from spark_exports.lake.digest import Tally
from spark_exports.lake.lake import Lake
from spark_exports.lake.rows import rows_of
from tests.unit.spark_exports.lake.lake_support import KEY, OTHER, lane, open_table, written


def of_log(*ranges: LaneRange) -> Tally:
    tally = Tally()
    for each in ranges:
        tally.add(lane(each.start, each.end, each.key))
    return tally


def test_a_table_has_what_was_published(lake: Lake) -> None:
    table = open_table(lake)
    assert rows_of(table) == Tally()
    ranges = [LaneRange(KEY, 0, 50), LaneRange(OTHER, 10, 30)]
    table.commit(Commit(1, 1, ranges, written(table, 1, ranges)))
    assert rows_of(table) == of_log(*ranges)
    part = [LaneRange(KEY, 20, 40)]
    assert rows_of(table, part) == of_log(*part)
    assert rows_of(table, []) == Tally()


def test_a_missing_row_shows(lake: Lake) -> None:
    table = open_table(lake)
    ranges = [LaneRange(KEY, 0, 50)]
    table.commit(Commit(1, 1, ranges, written(table, 1, [LaneRange(KEY, 0, 49)])))
    found, expected = rows_of(table), of_log(*ranges)
    assert found != expected
    assert set(expected.hours) - set(found.hours) != set()
