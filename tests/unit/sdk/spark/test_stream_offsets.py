"""The arithmetic of streams: what a checkpoint keeps, and what a batch has."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packetboat.spark.errors import ReadFailed
from packetboat.spark.ranges import Lane
from packetboat.spark.stream import advanced, as_offset, position, refuse_backwards

LANES = st.builds(Lane, st.sampled_from(["a", "b.c"]), st.integers(0, 300), st.integers(0, 9))
POSITIONS = st.dictionaries(LANES, st.integers(0, 10**6), max_size=8)


@given(POSITIONS)
def test_a_checkpoint_keeps_a_position(lanes: dict[Lane, int]) -> None:
    offset = as_offset(lanes)
    assert position(json.loads(json.dumps(offset))) == lanes
    backwards = dict(reversed(lanes.items()))
    assert json.dumps(as_offset(backwards)) == json.dumps(offset)


def test_what_it_looks_like() -> None:
    lanes = {Lane("orders", 1, 2): 9, Lane("orders", 0): 17, Lane("a", 10): 1, Lane("a", 9): 2}
    assert json.dumps(as_offset(lanes)) == '{"a": {"9": 2, "10": 1}, "orders": {"0": 17, "1/2": 9}}'


@given(POSITIONS, st.dictionaries(LANES, st.integers(0, 10**6), max_size=8), st.integers(1, 50))
def test_a_batch_never_has_more_than_it_may_and_always_something(
    start: dict[Lane, int], backlogs: dict[Lane, int], most: int
) -> None:
    ends = {lane: start.get(lane, 0) + backlog for lane, backlog in backlogs.items()}
    after = advanced(start, ends, most)
    taken = {lane: after[lane] - start.get(lane, 0) for lane in ends}
    assert all(0 <= taken[lane] <= backlogs[lane] for lane in ends)
    assert sum(taken.values()) == min(most, sum(backlogs.values()))
    assert start.keys() <= after.keys()


@given(POSITIONS, st.integers(1, 1000))
def test_batch_after_batch_comes_to_the_end(ends: dict[Lane, int], most: int) -> None:
    at: dict[Lane, int] = {}
    most = max(most, sum(ends.values()) // 20)
    for _ in range(25):
        at = advanced(at, ends, most)
    assert at == ends


def test_without_a_limit_it_is_all_there_is() -> None:
    start, ends = {Lane("a", 0): 5, Lane("gone", 0): 1}, {Lane("a", 0): 9, Lane("a", 1): 4}
    assert advanced(start, ends, None) == start | ends


def test_a_topic_that_was_made_again_is_noticed() -> None:
    refuse_backwards({Lane("a", 0): 5}, {Lane("a", 0): 5, Lane("a", 1): 0})
    with pytest.raises(ReadFailed, match=r"topic a, partition 0 ends at offset 4.*another checkp"):
        refuse_backwards({Lane("a", 0): 5}, {Lane("a", 0): 4})
