"""A manifest: all of it is there to be read, nothing of it twice, and no lane is left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.exports.manifest import LaneFacts, is_there, manifest
from metadata.exports.rows import positions_of, positions_text, ranges_of, ranges_text
from metadata.exports.types import BadRunId, Lane, LanePosition, LaneRange, RunId, like

OFFSETS = st.integers(0, 60)
LANES = st.builds(Lane, st.just("t"), st.just(b"t" * 16), st.integers(0, 9), st.integers(0, 2))
FACTS = st.builds(
    LaneFacts,
    OFFSETS,
    st.none() | OFFSETS,
    OFFSETS,
    OFFSETS,
    OFFSETS,
    st.booleans(),
)


@given(st.dictionaries(LANES, FACTS, max_size=12), st.integers(1, 200))
def test_a_manifest_takes_what_there_is_and_shares_the_room(
    lanes: dict[Lane, LaneFacts], most: int
) -> None:
    made = manifest(lanes, most)
    taken = {part.lane: part.end - part.start for part in made.ranges}
    assert [part.lane for part in made.ranges] == sorted(taken)
    pending = {lane: facts.pending for lane, facts in lanes.items()}
    assert sum(taken.values()) == min(most, sum(pending.values()))
    assert made.more == (sum(pending.values()) > most)
    for part in made.ranges:
        facts = lanes[part.lane]
        assert facts.begins <= part.start < part.end <= facts.end
        assert part.start >= facts.trimmed_to
        if facts.table_keeps and facts.reported is not None:
            # The commit checks that the table is at the start of the range.
            assert (part.start if part.position is None else part.position) == facts.reported
        else:
            assert part.position is None
    for lane, wants in pending.items():
        got = taken.get(lane, 0)
        if got < wants:
            assert all(other <= got + 1 for other in taken.values())
    assert is_there(made.ranges, lanes)


def test_a_plan_is_there_while_its_lanes_are_and_keep_their_messages() -> None:
    lane = Lane("t", b"t" * 16, 0, 0)
    ranges = (LaneRange(lane, 5, 9),)
    facts = LaneFacts(0, 0, 0, 5, 9)
    assert is_there(ranges, {lane: facts})
    assert not is_there(ranges, {lane: facts._replace(trimmed_to=6)})
    assert not is_there(ranges, {})


@pytest.mark.parametrize(
    ("facts", "position", "expired"),
    [
        # The position of the table counts, and nothing begins below the start of the export.
        (LaneFacts(begins=3, reported=None, known=9, trimmed_to=0, end=20), 3, 0),
        (LaneFacts(begins=3, reported=7, known=9, trimmed_to=0, end=20), 7, 0),
        (LaneFacts(begins=3, reported=1, known=9, trimmed_to=0, end=20), 3, 0),
        # Without a table that says, what is known here.
        (LaneFacts(3, None, 9, 0, 20, table_keeps=False), 9, 0),
        (LaneFacts(3, 50, 9, 0, 20, table_keeps=False), 9, 0),
        # Expired messages are counted from the known position of the table.
        (LaneFacts(0, 7, 7, 12, 20), 7, 5),
        (LaneFacts(0, 7, 12, 12, 20), 7, 0),
    ],
)
def test_where_a_lane_is(facts: LaneFacts, position: int, expired: int) -> None:
    assert (facts.position, facts.expired) == (position, expired)


@given(st.lists(st.builds(LaneRange, LANES, OFFSETS, OFFSETS, st.none() | OFFSETS)))
def test_ranges_are_read_as_they_were_written(ranges: list[LaneRange]) -> None:
    assert ranges_of(ranges_text(ranges)) == tuple(ranges)
    positions = [LanePosition(part.lane, part.start) for part in ranges]
    assert positions_of(positions_text(positions)) == tuple(positions)
    assert (ranges_of(None), positions_of(None)) == (None, None)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_a_runs_id_is_read_as_it_is_written(tenant_id: bytes, uid: bytes) -> None:
    run_id = RunId(tenant_id, uid)
    assert RunId.parse(str(run_id)) == run_id


@pytest.mark.parametrize("text", ["", "a", "A" * 42, "A" * 44, "A" * 42 + "B", "é" * 43, "A" * 100])
def test_what_is_no_runs_id_is_refused(text: str) -> None:
    with pytest.raises(BadRunId):
        RunId.parse(text)


def test_a_pattern_as_postgres_reads_it() -> None:
    assert like("a_b%c\\*d") == "a\\_b\\%c\\\\%d"
