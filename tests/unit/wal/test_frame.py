"""One record on disk."""

from __future__ import annotations

from itertools import pairwise

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from store_nodes.wal import frame as frames
from store_nodes.wal.errors import WalUnsupported
from store_nodes.wal.frame import FrameKind, Record

SEED = 0x1234_5678
SEGMENT = 7
RECORD = Record(FrameKind.ACCEPT, 3, 4, 5, b"payload")


def encoded(*records: Record, at: int = 0) -> bytes:
    return b"".join(frames.encode(records, SEGMENT, SEED, SEED, 4096, at).buffers)


def test_the_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_layout_is_frozen() -> None:
    raw = encoded(RECORD)
    assert raw.hex() == (
        "50425746" "01" "03" "0000" "07000000" "0300000000000000" "0400000000000000"
        "0500000000000000" "07000000" "00100000" "78563412" "7069e3f4" "ddef52cf"
        "7061796c6f6164" "00"
    )  # fmt: skip


@given(
    st.lists(
        st.builds(
            Record,
            st.sampled_from([FrameKind.PROMISE, FrameKind.ACCEPT, FrameKind.CHOSEN]),
            st.integers(0, 2**64 - 1),
            st.integers(0, 2**64 - 1),
            st.integers(0, 2**64 - 1),
            st.binary(max_size=40),
        ),
        max_size=8,
    )
)
def test_what_is_encoded_parses(records: list[Record]) -> None:
    result = frames.encode(records, SEGMENT, SEED, SEED, 4096, 0)
    data = b"".join(result.buffers)
    at, previous, found = 0, SEED, []
    while at < len(data):
        one = frames.parse(data, at, SEGMENT, SEED)
        assert one is not None
        assert frames.payload_holds(data, one)
        assert one.previous == previous
        assert at % 8 == 0
        found.append(
            Record(
                frames.kind_of(one),
                one.group,
                one.instance,
                one.ballot,
                data[one.payload_at : one.payload_at + one.length],
            )
        )
        at, previous = one.end, one.crc
    assert found == records
    assert (at, previous) == (result.end, result.previous)
    index = frames.index_entries(SEGMENT, result.index_rows)
    assert [entry.position for entry in index] == result.positions
    assert [data[p.offset : p.offset + p.length] for p in result.positions] == [
        record.payload for record in records
    ]


def test_any_bit_of_a_header_is_covered() -> None:
    raw = encoded(RECORD)
    for bit in range(frames.HEADER_BYTES * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert frames.parse(bytes(flipped), 0, SEGMENT, SEED) is None, bit


def test_any_bit_of_a_payload_is_covered() -> None:
    raw = encoded(RECORD)
    for bit in range(len(RECORD.payload) * 8):
        flipped = bytearray(raw)
        flipped[frames.HEADER_BYTES + bit // 8] ^= 1 << bit % 8
        found = frames.parse(bytes(flipped), 0, SEGMENT, SEED)
        assert found is not None
        assert not frames.payload_holds(bytes(flipped), found)


def test_a_frame_of_another_segment_does_not_parse() -> None:
    raw = encoded(RECORD)
    assert frames.parse(raw, 0, SEGMENT + 1, SEED) is None
    assert frames.parse(raw, 0, SEGMENT, SEED + 1) is None


def test_a_length_beyond_the_data_does_not_steer_the_reader() -> None:
    assert frames.parse(encoded(RECORD)[:-2], 0, SEGMENT, SEED) is None


def test_a_newer_version_is_refused_not_cut() -> None:
    raw = bytearray(encoded(RECORD))
    raw[4] = 2
    raw[52:56] = crc32c(bytes(raw[:52]), SEED).to_bytes(4, "little")
    with pytest.raises(WalUnsupported):
        frames.parse(bytes(raw), 0, SEGMENT, SEED)


def test_frames_follow_each_other_without_overlap() -> None:
    records = [Record(FrameKind.ACCEPT, 1, i, 1, bytes(i)) for i in range(20)]
    positions = frames.encode(records, SEGMENT, SEED, SEED, 0, 4096).positions
    for one, after in pairwise(positions):
        assert one.offset + one.length + frames.HEADER_BYTES <= after.offset
