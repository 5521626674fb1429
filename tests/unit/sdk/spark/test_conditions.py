"""Conditions leave everything to be read that they hold for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packetboat.spark.ranges import Lane, Split

pytest.importorskip(
    "packetboat.spark.pushdown",
    reason="Spark tells data sources of conditions since 4.1 (make test-spark SPARK=…)",
    exc_type=ImportError,
)

from packetboat.spark.pushdown import MARGIN, Conditions
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

COMPARISONS = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
    In: lambda a, b: a in b,
}
NUMBERS = st.integers(-2, 12)
COLUMN = st.sampled_from(["partition", "lane", "offset"])
SIMPLE = st.builds(
    lambda kind, column, value: kind((column,), value),
    st.sampled_from([kind for kind in COMPARISONS if kind is not In]),
    COLUMN,
    NUMBERS,
)
AMONG = st.builds(lambda column, values: In((column,), tuple(values)), COLUMN, st.lists(NUMBERS))


@given(st.lists(SIMPLE | AMONG, max_size=4))
def test_no_row_that_is_wanted_is_left_out(filters: list[Filter]) -> None:
    whole = [Split(Lane("a", n, lane), 0, 10) for n in range(3) for lane in range(2)]
    left = Conditions(filters).narrowed(whole)
    read = {(split.lane, offset) for split in left for offset in range(split.start, split.end)}
    for split in whole:
        for offset in range(10):
            row = {"partition": split.lane.partition, "lane": split.lane.lane, "offset": offset}
            if all(COMPARISONS[type(f)](row[f.attribute[0]], f.value) for f in filters):
                assert (split.lane, offset) in read


def test_what_is_not_wanted_is_not_read() -> None:
    whole = [Split(Lane(topic, n), 0, 100) for topic in "ab" for n in range(3)]
    conditions = Conditions(
        [
            In(("topic",), ("b", "c")),
            GreaterThan(("partition",), 0),
            GreaterThanOrEqual(("offset",), 10),
            LessThan(("offset",), 20),
        ]
    )
    found = conditions.narrowed(whole)
    assert found == [Split(Lane("b", 1), 10, 20), Split(Lane("b", 2), 10, 20)]


@pytest.mark.parametrize(
    "each",
    [
        Not(EqualTo(("partition",), 0)),
        IsNotNull(("offset",)),
        EqualNullSafe(("partition",), 0),
        StringStartsWith(("topic",), "x"),
        EqualTo(("attributes", "offset"), 5),
        EqualTo(("key",), "x"),
        EqualTo(("publish_time",), datetime(2026, 1, 1)),
        In(("offset",), ()),
    ],
    ids=repr,
)
def test_what_is_not_understood_leaves_all(each: Filter) -> None:
    conditions = Conditions([each])
    whole = [Split(Lane("a", 0), 0, 100)]
    assert conditions.narrowed(whole) == whole
    assert (conditions.from_time, conditions.before_time) == (None, None)


def test_times_are_the_latest_beginning_and_the_earliest_end() -> None:
    early, late = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    name = ("publish_time",)
    conditions = Conditions(
        [GreaterThan(name, early), GreaterThanOrEqual(name, late), LessThan(name, late)]
    )
    assert (conditions.from_time, conditions.before_time) == (late, late + MARGIN)
    exactly = Conditions([EqualTo(name, early), LessThanOrEqual(name, late)])
    assert (exactly.from_time, exactly.before_time) == (early, early + MARGIN)
