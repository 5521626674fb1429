"""The index finds instances, also those that were accepted out of order."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.storage.pages import Pages
from store_nodes.wal.position import Position


def test_a_gap_loses_nothing_below_it() -> None:
    """The index was started anew above the gap once, and a peer further behind could not be fed."""
    index = InstanceIndex()
    places = {instance: Position(0, 100 * instance, 12) for instance in range(5)}
    for instance in (0, 1, 4):
        index.put(instance, places[instance])
    assert [index.get(n) for n in range(6)] == [places[0], places[1], None, None, places[4], None]
    index.put(2, places[2])
    assert index.get(2) == places[2]
    assert index.end == 5


puts = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 1000)), max_size=60)


@given(puts)
def test_against_a_dict(drawn: list[tuple[int, int]]) -> None:
    index, twin = InstanceIndex(), {}
    for at, (instance, length) in enumerate(drawn):
        twin[instance] = Position(at % 3, at, length)
        index.put(instance, twin[instance])
    assert [index.get(n) for n in range(-1, 32)] == [twin.get(n) for n in range(-1, 32)]


class Segments:
    """Each instance of a segment lies at a hundred times its number."""

    def instance(self, segment: int, start: int, stop: int, instance: int) -> Position:
        return Position(segment, 100 * instance, 12)


def test_a_segment_that_lost_records_takes_earlier_ones_with_it() -> None:
    """An instance of the lost segment was told to peers as an earlier segment had it."""
    index = InstanceIndex()
    for segment, first, last in ((1, 0, 5), (2, 4, 9), (3, 10, 12)):
        index.attach(cast("Pages", Segments()), segment, first, last, 0, 1)
    index.put(13, Position(4, 1300, 12))
    found = [index.get(n) for n in (5, 8, 11, 13)]
    assert [place and place.segment for place in found] == [2, 2, 3, 4]
    index.forget_upto(2)
    found = [index.get(n) for n in (0, 5, 8, 11, 13)]
    assert [place and place.segment for place in found] == [None, None, None, 3, 4]
    assert index.oldest == 10
    index.forget_upto(4)
    assert index.get(13) is None
    index.put(13, Position(5, 0, 12))
    assert index.get(13) == Position(5, 0, 12), "it was learned again"
