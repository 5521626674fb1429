"""Encodes the index that a sealed segment ends with, so that a start need not read its frames.

A frame of kind FOOTER, whose payload is

    version u16 · reserved u16 · frames u32 · batches u32 · extras bytes u32 ·
    frames × (group u64 · instance u64 · ballot u64 · payload offset u32 · length u32 · kind u8) ·
    batches × (queue id 25 B · flags u8 · reserved u16 · messages u32 · base offset u64 ·
               log time u64 · segment u32 · offset u32 · length u32 · extra u32) ·
    extras: (length u32 · bytes) each

and after it, as the file's last 16 bytes, a trailer: magic u32 · footer offset u32 · segment u32 ·
CRC32C u32 of the trailer before it, from the segment's seed.

A batch is listed in at least one footer, and in two if it was applied again after a restart.
Readers drop the second by (queue, base offset). `extra` is the offset of the entry's extra bytes in
`extras`, 0xFFFFFFFF for none (a released batch of staged messages has them).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from store_nodes.wal.errors import BadFooter, WalUnsupported
from store_nodes.wal.frame import INDEX, INDEX_BYTES, FrameEntry, index_entries
from store_nodes.wal.position import Position

FOOTER_VERSION = 1
_FOOTER = struct.Struct("<HHIII")
_BATCH = struct.Struct("<25sBHIQQIIII")
_EXTRA = struct.Struct("<I")
_TRAILER = struct.Struct("<IIII")
_TRAILER_MAGIC = 0x45574250
_NO_EXTRA = 0xFFFFFFFF
APPENDED, STAGED, RELEASED = 0, 1, 2
"""The flags of a batch, whose `base_offset` is an offset, a stage number and an offset,
respectively.
"""
FOOTER_HEAD_BYTES = _FOOTER.size
BATCH_BYTES = _BATCH.size
TRAILER_BYTES = _TRAILER.size
assert BATCH_BYTES == 64


class BatchEntry(NamedTuple):
    """An applied batch: its queue, its offsets, and the place of its bytes."""

    queue: bytes
    base_offset: int
    messages: int
    log_time_us: int
    position: Position
    flags: int = 0
    extra: bytes = b""


class Footer(NamedTuple):
    """A footer that was read; its rows are decoded when asked for."""

    segment: int
    frame_rows: bytes
    batch_rows: bytes
    extras: bytes

    def frames(self) -> list[FrameEntry]:
        """Return every frame of the segment except marks and the footer, in the order written."""
        return index_entries(self.segment, self.frame_rows)

    def each_frame(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield (kind, group, instance, payload offset, length) of the same frames."""
        for group, instance, _, at, length, kind in INDEX.iter_unpack(self.frame_rows):
            yield kind, group, instance, at, length

    def batches(self) -> list[BatchEntry]:
        """Return the batches applied while this segment was the last, in that order."""
        return list(self.each_batch())

    def each_batch(self) -> Iterator[BatchEntry]:
        for (
            queue,
            flags,
            _,
            messages,
            base,
            log_time_us,
            segment,
            offset,
            length,
            extra_at,
        ) in _BATCH.iter_unpack(self.batch_rows):
            yield BatchEntry(
                queue,
                base,
                messages,
                log_time_us,
                Position(segment, offset, length),
                flags,
                self._extra(extra_at),
            )

    def _extra(self, at: int) -> bytes:
        if at == _NO_EXTRA:
            return b""
        (length,) = _EXTRA.unpack_from(self.extras, at)
        start = at + _EXTRA.size
        return self.extras[start : start + length]


class BatchRows:
    """Entries packed as in a footer, so that many of them take little memory."""

    __slots__ = ("_extras", "_rows")

    def __init__(self, entries: Iterable[BatchEntry] = ()) -> None:
        self._rows = bytearray()
        self._extras = bytearray()
        for entry in entries:
            self.add(entry)

    def add(self, entry: BatchEntry) -> None:
        """Add an entry in its packed form."""
        queue, base, messages, log_time_us, (segment, offset, length), flags, extra = entry
        at = _NO_EXTRA
        if extra:
            at = len(self._extras)
            self._extras += _EXTRA.pack(len(extra)) + extra
        self._rows += _BATCH.pack(
            queue, flags, 0, messages, base, log_time_us, segment, offset, length, at
        )

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._rows) // BATCH_BYTES

    @property
    def size_bytes(self) -> int:
        """The number of bytes that these entries add to a footer."""
        return len(self._rows) + len(self._extras)

    def entries(self) -> list[BatchEntry]:
        """Return the entries in the order in which they were added."""
        return Footer(0, b"", bytes(self._rows), bytes(self._extras)).batches()

    def encode(self, frame_rows: bytes = b"") -> bytes:
        """Return the payload of a FOOTER frame."""
        frames = len(frame_rows) // INDEX_BYTES
        head = _FOOTER.pack(FOOTER_VERSION, 0, frames, len(self), len(self._extras))
        return b"".join((head, frame_rows, self._rows, self._extras))


def encode_footer(frame_rows: bytes, batches: Iterable[BatchEntry]) -> bytes:
    """Return the payload of a FOOTER frame."""
    return BatchRows(batches).encode(frame_rows)


def decode_footer(segment: int, payload: bytes) -> Footer:
    """Return the footer of a payload whose CRC held; raises BadFooter, WalUnsupported."""
    if len(payload) < _FOOTER.size:
        raise BadFooter(f"segment {segment}: a footer of {len(payload)} bytes")
    version, _, frames, batches, extras = _FOOTER.unpack_from(payload)
    if version != FOOTER_VERSION:
        raise WalUnsupported(f"segment {segment}: footer version {version}")
    batches_at = _FOOTER.size + frames * INDEX_BYTES
    extras_at = batches_at + batches * BATCH_BYTES
    if extras_at + extras != len(payload):
        raise BadFooter(
            f"segment {segment}: {frames} frames, {batches} batches and {extras} extra bytes are "
            f"not {len(payload)} bytes"
        )
    return Footer(
        segment,
        payload[_FOOTER.size : batches_at],
        payload[batches_at:extras_at],
        payload[extras_at:],
    )


def encode_trailer(footer_at: int, segment: int, seed: int) -> bytes:
    head = _TRAILER.pack(_TRAILER_MAGIC, footer_at, segment, 0)[:-4]
    return head + crc32c(head, seed).to_bytes(4, "little")


def decode_trailer(raw: bytes, segment: int, seed: int) -> int | None:
    """Return the offset of the footer's frame, if this is a trailer of this segment."""
    if len(raw) != TRAILER_BYTES:
        return None
    magic, footer_at, found, crc = _TRAILER.unpack(raw)
    if magic != _TRAILER_MAGIC or found != segment or crc32c(raw[:-4], seed) != crc:
        return None
    return int(footer_at)
