"""Where a cursor goes: the books balance and nothing unacked is left out, whatever is trimmed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metadata.subscriptions.seeks import Target, place

LAST = 30


def ranges_of(offsets: set[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return tuple(found)


@given(
    st.integers(0, LAST),
    st.sets(st.integers(0, LAST)),
    st.integers(0, LAST),
    st.sets(st.integers(0, LAST)),
)
def test_a_snapshot_places_what_it_had_open(
    floor: int, acked: set[int], trimmed_to: int, kept: set[int]
) -> None:
    acked = {offset for offset in acked if offset >= floor}
    read_to = max(acked, default=floor - 1) + 1
    target = Target(floor, read_to, ranges_of(acked))
    placed = place(target, trimmed_to, sorted(offset for offset in kept if offset < trimmed_to))

    settled = {offset for low, high in placed.acked for offset in range(low, high)}
    settled |= set(range(placed.start, placed.floor)) - set(placed.holes)
    assert placed.settled() == len(settled)
    pending = placed.read_to - placed.floor - sum(high - low for low, high in placed.acked)
    assert placed.read_to - placed.start == placed.settled() + len(placed.holes) + pending

    open_before = {offset for offset in range(floor, LAST) if offset not in acked}
    stored = {offset for offset in range(LAST) if offset >= trimmed_to} | kept
    delivered = {offset for offset in range(placed.floor, LAST) if offset not in settled}
    assert delivered | set(placed.holes) == open_before & stored
    assert not settled & set(placed.holes)
    assert placed.start <= placed.floor <= placed.read_to
    assert all(placed.floor < low < high <= placed.read_to for low, high in placed.acked)


@given(st.integers(0, LAST), st.integers(0, LAST), st.sets(st.integers(0, LAST)))
def test_what_stays_open_is_a_hole_below_the_floor(
    offset: int, trimmed_to: int, still_open: set[int]
) -> None:
    placed = place(Target(offset), trimmed_to, still_open=still_open)
    assert placed.floor == placed.read_to == max(offset, trimmed_to)
    assert set(placed.holes) == {each for each in still_open if each < placed.floor}
    assert placed.start == min([placed.floor, *placed.holes])
    assert placed.read_to - placed.start == placed.settled() + len(placed.holes)


@given(st.integers(0, LAST), st.integers(0, LAST), st.sets(st.integers(0, LAST)))
def test_a_plain_target_begins_anew(offset: int, trimmed_to: int, kept: set[int]) -> None:
    placed = place(Target(offset), trimmed_to, sorted(kept))
    at = max(offset, trimmed_to)
    assert (placed.start, placed.floor, placed.read_to) == (at, at, at)
    assert (placed.acked, placed.holes, placed.settled()) == ((), (), 0)
