"""The batch index against a list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store_nodes.storage.batch_index import (
    BatchIndex,
    Located,
)
from store_nodes.storage.checkpoint_tail import PACKED_BYTES, pack_tail, unpack_tail
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.position import Position

Q = b"q" * 25
R = b"r" * 25


def entry(base: int, messages: int, time_us: int, length: int = 10, queue: bytes = Q) -> BatchEntry:
    return BatchEntry(queue, base, messages, time_us, Position(base % 3, base * 100, length))


def located(entries: list[BatchEntry]) -> list[Located]:
    return [Located(*one[1:5]) for one in entries]


ENTRIES = [entry(0, 5, 100), entry(5, 1, 100), entry(6, 10, 250), entry(16, 2, 300)]


@pytest.fixture
def index() -> BatchIndex:
    made = BatchIndex()
    made.extend(ENTRIES)
    return made


@pytest.mark.parametrize(
    ("offset", "first"),
    [(0, 0), (4, 0), (5, 1), (6, 2), (15, 2), (16, 3), (17, 3), (18, None), (99, None)],
)
def test_locate_starts_with_the_batch_that_holds_the_offset(
    index: BatchIndex, offset: int, first: int | None
) -> None:
    found = index.locate(Q, offset, 1000)
    assert found == ([] if first is None else located(ENTRIES[first:]))


def test_locate_gives_as_many_as_fit_but_one(index: BatchIndex) -> None:
    assert [len(index.locate(Q, 0, size)) for size in (0, 9, 10, 19, 20, 39, 40)] == [
        *(1, 1, 1, 1, 2, 3, 4),
    ]
    assert index.locate(R, 0, 100) == []


@pytest.mark.parametrize(
    ("time_us", "offset"), [(0, 0), (100, 0), (101, 6), (250, 6), (300, 16), (301, None)]
)
def test_offset_at(index: BatchIndex, time_us: int, offset: int | None) -> None:
    assert index.offset_at(Q, time_us) == offset
    assert index.offset_at(R, time_us) is None


def test_offset_at_does_not_go_below_the_truncation(index: BatchIndex) -> None:
    index.truncate(Q, 6, (0,))
    assert index.offset_at(Q, 0) == 6


def test_what_is_there_is_not_added_again(index: BatchIndex) -> None:
    assert not index.add_entry(entry(16, 2, 300))
    assert not index.add_entry(entry(0, 5, 100))
    assert index.add_entry(entry(18, 1, 400))
    assert len(index) == 5


def test_a_gap_is_allowed(index: BatchIndex) -> None:
    """A truncated stretch may be in no footer any more."""
    later = entry(100, 5, 900)
    assert index.add_entry(later)
    assert index.locate(Q, 50, 10) == located([later])


def test_truncate_keeps_the_batch_that_straddles_and_those_kept(index: BatchIndex) -> None:
    index.truncate(Q, 7, (5,))
    assert len(index) == 3
    assert index.locate(Q, 7, 0) == located([ENTRIES[2]])
    assert index.locate(Q, 5, 0) == located([ENTRIES[1]])
    index.truncate(R, 7)


def test_drop(index: BatchIndex) -> None:
    index.drop(Q)
    index.drop(Q)
    assert index.locate(Q, 0, 10) == []
    assert index.queues() == []
    assert len(index) == 0


def test_truncated_batches_leave_memory() -> None:
    index = BatchIndex()
    index.extend(entry(n, 1, n) for n in range(5000))
    index.truncate(Q, 4000, (10, 3999))
    assert len(index) == 1002
    assert index.locate(Q, 10, 0) == located([entry(10, 1, 10)])
    assert index.locate(Q, 4000, 0) == located([entry(4000, 1, 4000)])
    assert index.offset_at(Q, 0) == 4000


def test_packed_golden() -> None:
    raw, rest = pack_tail([entry(6, 10, 250)])
    assert rest == b""
    assert raw.hex() == "71" * 25 + (
        "06000000000000000a000000fa000000000000000000000058020000000000000a000000"
    )
    assert len(raw) == PACKED_BYTES
    with pytest.raises(ValueError, match="whole number"):
        list(unpack_tail(raw[:-1], b""))


batches = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(1, 40)), max_size=60)


@settings(max_examples=100, deadline=None)
@given(batches, st.integers(0, 320), st.lists(st.integers(0, 320), max_size=5), st.integers(0, 200))
def test_against_a_list(
    drawn: list[tuple[int, int, int]], first: int, kept: list[int], max_bytes: int
) -> None:
    base = time_us = 0
    entries: list[BatchEntry] = []
    for messages, step_us, length in drawn:
        time_us += step_us
        entries.append(entry(base, messages, time_us, length))
        base += messages
    index = BatchIndex()
    index.extend(unpack_tail(*pack_tail(entries)))
    first = min(first, base)
    index.truncate(Q, first, [n for n in kept if n < first])
    for offset in [n for n in range(base) if n >= first or n in kept]:
        holding = next(i for i, e in enumerate(entries) if e.base_offset + e.messages > offset)
        found = index.locate(Q, offset, max_bytes)
        assert found == located(entries[holding : holding + len(found)])
        size = sum(e.position.length for e in found)
        assert len(found) == 1 or size <= max_bytes
        more = entries[holding + len(found) :] if offset >= first else []
        assert not more or size + more[0].position.length > max_bytes
    live = [e for e in entries if e.base_offset + e.messages > first]
    for at in range(time_us + 2):
        assert index.offset_at(Q, at) == next(
            (e.base_offset for e in live if e.log_time_us >= at), None
        )
