"""The index of a sealed segment, and the file's own header."""

from __future__ import annotations

import pytest

from store_nodes.wal import compacted
from store_nodes.wal import frame as frames
from store_nodes.wal.compacted import CompactedList
from store_nodes.wal.errors import BadFooter
from store_nodes.wal.footer import (
    TRAILER_BYTES,
    BatchEntry,
    BatchRows,
    decode_footer,
    decode_trailer,
    encode_footer,
    encode_trailer,
)
from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.position import Position
from store_nodes.wal.segment import (
    FIRST_COMPACTED,
    SEGMENT_HEADER_BYTES,
    SPARE_SUFFIX,
    SegmentHeader,
    decode_header,
    path_of,
    segment_of,
    used_bytes,
)
from tests.unit.wal.wal_support import DIRECTORY, SimDisk

HEADER = SegmentHeader(9, b"c" * 16, 2, b"i" * 16, b"s" * 16)
BATCHES = [
    BatchEntry(b"q" * 25, 100, 3, 1_700_000_000_000_000, Position(1, 4152, 99)),
    BatchEntry(b"r" * 25, 0, 1, 5, Position(2, 8, 1), flags=1, extra=b"stage 7"),
    BatchEntry(b"s" * 25, 1, 1, 6, Position(2, 16, 1), extra=b"x"),
]


def test_a_footer_comes_back() -> None:
    records = [Record(FrameKind.ACCEPT, 1, i, 3, b"x" * i) for i in range(5)]
    written = frames.encode(records, 9, 1, 1, 0, 4096)
    footer = decode_footer(9, encode_footer(written.index_rows, BATCHES))
    assert footer.batches() == BATCHES
    assert [entry.instance for entry in footer.frames()] == [0, 1, 2, 3, 4]
    assert [entry.position for entry in footer.frames()] == written.positions


def test_a_list_of_compacted_segments_that_contradicts_itself_is_not_trusted() -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    for listed in ((FIRST_COMPACTED, FIRST_COMPACTED), (FIRST_COMPACTED + 1,), (7,)):
        wrong = CompactedList(segments=listed, next_segment=FIRST_COMPACTED + 1)
        compacted.store(disk, DIRECTORY, wrong)
        assert compacted.load(disk, DIRECTORY) is None
    sound = CompactedList(segments=(FIRST_COMPACTED,), next_segment=FIRST_COMPACTED + 1)
    compacted.store(disk, DIRECTORY, sound)
    assert compacted.load(disk, DIRECTORY) is not None


def test_a_footer_that_does_not_add_up_is_an_error_of_its_own() -> None:
    whole = encode_footer(b"", BATCHES)
    for cut in (whole[:7], whole[:-1], whole + b"x"):
        with pytest.raises(BadFooter, match="segment 9"):
            decode_footer(9, cut)


def test_the_size_of_a_footer_is_known_before() -> None:
    rows = BatchRows(BATCHES)
    assert len(encode_footer(b"", BATCHES)) == len(encode_footer(b"", [])) + rows.size_bytes


def test_an_empty_footer() -> None:
    footer = decode_footer(1, encode_footer(b"", []))
    assert footer.frames() == []
    assert footer.batches() == []


def test_a_trailer_names_its_footer() -> None:
    raw = encode_trailer(8192, 9, 77)
    assert len(raw) == TRAILER_BYTES
    assert decode_trailer(raw, 9, 77) == 8192
    assert decode_trailer(raw, 8, 77) is None
    assert decode_trailer(raw, 9, 78) is None
    assert decode_trailer(raw[1:], 9, 77) is None
    for bit in range(TRAILER_BYTES * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_trailer(bytes(flipped), 9, 77) is None


def test_a_segment_header_comes_back() -> None:
    block = HEADER.encode()
    assert len(block) == SEGMENT_HEADER_BYTES
    assert decode_header(block) == HEADER
    assert int.from_bytes(block[72:76], "little") == HEADER.seed


def test_a_bad_sector_takes_one_copy_of_the_header() -> None:
    block = HEADER.encode()
    assert decode_header(bytes(512) + block[512:]) == HEADER
    assert decode_header(block[:2048] + bytes(2048)) == HEADER
    assert decode_header(bytes(512) + block[512:2048] + bytes(2048)) is None


def test_every_segment_has_another_seed() -> None:
    assert HEADER.seed != HEADER._replace(salt=b"t" * 16).seed
    assert HEADER.seed != HEADER._replace(node_id=3).seed


def test_names() -> None:
    path = path_of(DIRECTORY, 255)
    assert path.name == "00000000000000ff.wal"
    assert segment_of(path.name) == 255
    assert segment_of(path.name, SPARE_SUFFIX) is None
    for other in (
        "node.json",
        "LOCK",
        "ff.wal",
        "00000000000000FF.wal",
        "00000000000000ff.wal.tmp",
    ):
        assert segment_of(other) is None


@pytest.mark.parametrize("used", [0, 1, 511, 512, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_used_bytes(used: int) -> None:
    assert used_bytes(b"x" * used + bytes((3 << 20) - used)) == used
