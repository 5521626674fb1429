"""Ranges against a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store_nodes.machine.number_ranges import NumberRanges


@given(st.lists(st.integers(0, 40), unique=True))
def test_ranges_hold_what_was_added(numbers: list[int]) -> None:
    ranges = NumberRanges(100)
    held: set[int] = set()
    for number in numbers:
        ranges.add(number)
        held.add(number)
        assert {n for n in range(-1, 43) if n in ranges} == held
        assert len(ranges) == sum(n - 1 not in held for n in held)
    again = NumberRanges.unpack(100, ranges.pack())
    assert again.pack() == ranges.pack()
    assert {n for n in range(43) if n in again} == held


def test_the_lowest_are_forgotten_first() -> None:
    ranges = NumberRanges(2)
    for number in (1, 5, 9):
        ranges.add(number)
    assert [n for n in range(12) if n in ranges] == [5, 9]
