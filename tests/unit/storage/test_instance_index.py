"""The index finds instances, also those that were accepted out of order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store_nodes.storage.instance_index import InstanceIndex
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
