"""Encodes one record on disk: a fixed header, the payload, zeros up to a multiple of 8.

    magic u32 · version u8 · kind u8 · flags u16 · length u32 · group u64 · instance u64 ·
    ballot u64 · segment u32 · synced u32 · previous u32 · payload CRC32C u32 · header CRC32C u32

little-endian, 56 bytes. The header's CRC starts from the segment's *seed* (the checksum of the
segment's header, which holds random bytes), not from zero: bytes of another segment or another
node, and frames that somebody published as a message, never verify here.

`previous` is the header CRC of the frame before, so that a frame that was never written, or one
left from elsewhere, is noticed. `synced` is the offset up to which this segment was known to be
synced when the frame was written. So a bad frame below the highest mark was acknowledged once and
is now damaged; one above it never was. Every frame starts on a multiple of 8, so no field is ever
torn in two.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from store_nodes.wal.errors import WalUnsupported
from store_nodes.wal.position import Position

MAGIC = 0x46574250
MAGIC_BYTES = MAGIC.to_bytes(4, "little")
VERSION = 1
ALIGNMENT = 8
MAX_PAYLOAD_BYTES = 1 << 30

_HEAD = struct.Struct("<IBBHIQQQIIII")
HEADER_BYTES = _HEAD.size + 4
INDEX = struct.Struct("<QQQIIB")
INDEX_BYTES = INDEX.size
_PADS = tuple(bytes(count) for count in range(ALIGNMENT))
assert HEADER_BYTES == 56
assert HEADER_BYTES % ALIGNMENT == 0


class FrameKind(enum.IntEnum):
    """The kind of a frame, one byte on disk; a number is never reused.

    The numbers 8 … 15 are the log's own, 16 and more are free.
    """

    PROMISE = 2
    ACCEPT = 3
    LEARN = 4
    CHOSEN = 5
    FOOTER = 6
    SYNC_MARK = 7
    BATCH = 16


class Record(NamedTuple):
    """A frame to write; `instance` and `ballot` are 0 if the kind has none."""

    kind: FrameKind
    group: int
    instance: int
    ballot: int
    payload: bytes


class FrameEntry(NamedTuple):
    """A frame in a segment's index: all fields except the payload, which is at `position`."""

    kind: FrameKind
    group: int
    instance: int
    ballot: int
    position: Position


class Encoded(NamedTuple):
    """Frames ready for one write; the next frames continue from `previous` and `end`."""

    buffers: list[bytes]
    positions: list[Position]
    index_rows: bytes
    previous: int
    end: int


class Frame(NamedTuple):
    """A header that was read and verified; its payload is not, see `payload_holds`."""

    at: int
    kind: int
    group: int
    instance: int
    ballot: int
    length: int
    synced: int
    previous: int
    payload_crc: int
    crc: int

    @property
    def payload_at(self) -> int:
        return self.at + HEADER_BYTES

    @property
    def end(self) -> int:
        return self.at + frame_bytes(self.length)


def frame_bytes(payload_bytes: int) -> int:
    """Return the bytes of a frame on disk, with header and padding."""
    return HEADER_BYTES + payload_bytes + (-payload_bytes % ALIGNMENT)


def encode(
    records: Sequence[Record], segment: int, seed: int, previous: int, synced: int, at: int
) -> Encoded:
    """Return the frames of `records`, the first one at offset `at` of the segment."""
    buffers: list[bytes] = []
    positions: list[Position] = []
    index: list[bytes] = []
    for kind, group, instance, ballot, payload in records:
        length = len(payload)
        head = _HEAD.pack(
            MAGIC,
            VERSION,
            kind,
            0,
            length,
            group,
            instance,
            ballot,
            segment,
            synced,
            previous,
            crc32c(payload),
        )
        previous = crc32c(head, seed)
        buffers.append(head + previous.to_bytes(4, "little"))
        at += HEADER_BYTES
        positions.append(Position(segment, at, length))
        index.append(INDEX.pack(group, instance, ballot, at, length, kind))
        if length:
            buffers.append(payload)
            at += length
            if length % ALIGNMENT:
                pad = _PADS[-length % ALIGNMENT]
                buffers.append(pad)
                at += len(pad)
    return Encoded(buffers, positions, b"".join(index), previous, at)


def parse(data: bytes, at: int, segment: int, seed: int) -> Frame | None:
    """Return the frame whose header is at `at`, if it verifies and its payload is within `data`."""
    if at + HEADER_BYTES > len(data):
        return None
    (magic, version, kind, _, length, group, instance, ballot, found, synced, previous, crc) = (
        _HEAD.unpack_from(data, at)
    )
    if magic != MAGIC or found != segment:
        return None
    own = int.from_bytes(data[at + _HEAD.size : at + HEADER_BYTES], "little")
    if crc32c(data[at : at + _HEAD.size], seed) != own:
        return None
    if version != VERSION:
        raise WalUnsupported(f"segment {segment} at {at}: frame version {version}")
    if at + HEADER_BYTES + length > len(data):
        return None
    return Frame(at, kind, group, instance, ballot, length, synced, previous, crc, own)


def payload_holds(data: bytes, frame: Frame) -> bool:
    """Return whether the payload in `data` is the one with which its header was written."""
    with memoryview(data) as view:
        return crc32c(view[frame.payload_at : frame.payload_at + frame.length]) == frame.payload_crc


def kind_of(frame: Frame) -> FrameKind:
    """Return the kind of a frame; raises WalUnsupported for a kind of a newer version."""
    try:
        return FrameKind(frame.kind)
    except ValueError:
        raise WalUnsupported(f"frame of kind {frame.kind} at {frame.at}") from None


def index_row(frame: Frame) -> bytes:
    """Return a frame's row in the footer's index."""
    return INDEX.pack(
        frame.group, frame.instance, frame.ballot, frame.payload_at, frame.length, frame.kind
    )


def index_entries(segment: int, rows: bytes | memoryview) -> list[FrameEntry]:
    """Return the rows of an index, in the order written."""
    return [
        FrameEntry(FrameKind(kind), group, instance, ballot, Position(segment, at, length))
        for group, instance, ballot, at, length, kind in INDEX.iter_unpack(rows)
    ]
