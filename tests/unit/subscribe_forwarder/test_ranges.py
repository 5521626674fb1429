"""RangeSet against a plain set of integers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from subscribe_forwarder.delivery.state.ranges import RangeSet

SPAN = 60
spans = st.tuples(st.integers(0, SPAN), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1]))


def check(ranges: RangeSet, twin: set[int]) -> None:
    listed = ranges.ranges()
    assert {o for low, high in listed for o in range(low, high)} == twin
    assert all(low < high for low, high in listed)
    assert all(a[1] < b[0] for a, b in pairwise(listed)), "touch or overlap"
    assert ranges.size == len(twin)
    assert len(ranges) == len(listed)


@given(st.lists(spans, max_size=40))
def test_adding_is_a_union_and_counts_what_is_new(adds: list[tuple[int, int]]) -> None:
    ranges, twin = RangeSet(), set[int]()
    for low, high in adds:
        assert ranges.add(low, high) == len(set(range(low, high)) - twin)
        twin |= set(range(low, high))
        check(ranges, twin)
    assert all((o in ranges) is (o in twin) for o in range(SPAN + 10))


@given(st.lists(spans, max_size=20), st.integers(0, SPAN), st.integers(0, SPAN + 20))
def test_gap_at_is_the_first_run_outside(
    adds: list[tuple[int, int]], offset: int, end: int
) -> None:
    ranges = RangeSet(adds)
    outside = [o for o in range(offset, end) if o not in ranges]
    low, high = ranges.gap_at(offset, end)
    if not outside:
        assert low >= end
        assert low == high == end or offset >= end
        return
    assert low == outside[0]
    run = low
    while run < end and run not in ranges:
        run += 1
    assert high == run


@given(st.lists(spans, min_size=1, max_size=20))
def test_the_first_range_leaves_only_from_the_floor(adds: list[tuple[int, int]]) -> None:
    ranges = RangeSet(adds)
    low, high = ranges.ranges()[0]
    before = ranges.size
    if low > 0:
        assert ranges.drop_first_if_at(low - 1) == low - 1
    assert ranges.drop_first_if_at(low) == high
    assert ranges.size == before - (high - low)


def test_an_empty_set_drops_nothing() -> None:
    assert RangeSet().drop_first_if_at(7) == 7
