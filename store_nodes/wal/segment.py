"""Opens a file of frames, `<segment, 16 hex digits>.wal`, or `.spare` before it is used.

Compacted segments have numbers from `FIRST_COMPACTED` on and the suffix `.settled`, or `.settling`
while they are written (compacted.py).

The first 4096 bytes are the header, twice (at 0 and at 2048, so that one bad sector takes one):

    magic "PBWALSEG" · version u16 · reserved u16 · segment u32 · cluster uid 16 B · node u32 ·
    reserved u32 · incarnation uid 16 B · salt 16 B · CRC32C u32

Its CRC is the *seed* from which the CRCs of all frame headers in the file start. A spare is
preallocated with its header and synced, file and directory, before anything is written to it: the
blocks are reserved when the disk is full, and bytes that a power cut leaves unwritten read as
zeros. A segment file is never reused, so bytes that are not zero were written for this segment.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from store_nodes.wal import frame as frames
from store_nodes.wal.disk import Disk
from store_nodes.wal.errors import WalUnsupported
from store_nodes.wal.footer import TRAILER_BYTES, decode_trailer

SEGMENT_VERSION = 1
SEGMENT_HEADER_BYTES = 4096
SEGMENT_SUFFIX = ".wal"
SPARE_SUFFIX = ".spare"
COMPACTED_SUFFIX = ".settled"
COMPACTING_SUFFIX = ".settling"
INDEX_SUFFIX = ".index"
"""The suffix of a cache of the segment's footer (storage/sidecar.py); it may be missing, and is
never synced.
"""
FIRST_COMPACTED = 0x8000_0000
MIN_SEGMENT_BYTES = 2 * SEGMENT_HEADER_BYTES
MAX_SEGMENT_BYTES = 0xFFFF_0000
"""The largest segment, because offsets are u32."""
FIRST_SEGMENT_BYTES = 8 * 1024 * 1024

_MAGIC = b"PBWALSEG"
_HEADER = struct.Struct("<8sHHI16sII16s16s")
_COPIES_AT = (0, SEGMENT_HEADER_BYTES // 2)
_ZEROS = bytes(1 << 20)


class SegmentHeader(NamedTuple):
    """The node and incarnation of a segment; `salt` is 16 random bytes."""

    segment: int
    cluster_uid: bytes
    node_id: int
    incarnation_uid: bytes
    salt: bytes

    def encode(self) -> bytes:
        """Return the whole header block."""
        raw = self._pack()
        copy = raw + crc32c(raw).to_bytes(4, "little")
        half = copy.ljust(SEGMENT_HEADER_BYTES // 2, b"\0")
        return half + half

    @property
    def seed(self) -> int:
        """The value from which the CRCs of this segment's frame headers start."""
        return crc32c(self._pack())

    def _pack(self) -> bytes:
        return _HEADER.pack(
            _MAGIC,
            SEGMENT_VERSION,
            0,
            self.segment,
            self.cluster_uid,
            self.node_id,
            0,
            self.incarnation_uid,
            self.salt,
        )


def decode_header(block: bytes) -> SegmentHeader | None:
    """Return the header from either copy; None if neither verifies."""
    for at in _COPIES_AT:
        raw = block[at : at + _HEADER.size]
        crc = block[at + _HEADER.size : at + _HEADER.size + 4]
        if len(raw) < _HEADER.size or crc32c(raw).to_bytes(4, "little") != crc:
            continue
        magic, version, _, segment, cluster, node, _, incarnation, salt = _HEADER.unpack(raw)
        if magic != _MAGIC:
            continue
        if version != SEGMENT_VERSION:
            raise WalUnsupported(f"segment {segment}: version {version}")
        return SegmentHeader(segment, cluster, node, incarnation, salt)
    return None


def path_of(directory: Path, segment: int, suffix: str | None = None) -> Path:
    """Return the path of a segment; without a suffix, its number decides between raw and
    compacted.
    """
    if suffix is None:
        suffix = COMPACTED_SUFFIX if segment >= FIRST_COMPACTED else SEGMENT_SUFFIX
    return directory / f"{segment:016x}{suffix}"


def segment_of(name: str, suffix: str = SEGMENT_SUFFIX) -> int | None:
    """Return the number in a file name; None if the name is another one."""
    stem, dot, ending = name.partition(".")
    if dot + ending != suffix or len(stem) != 16 or not set(stem) <= set("0123456789abcdef"):
        return None
    return int(stem, 16)


def preallocated_bytes(segment: int, segment_bytes: int) -> int:
    """Return the size with which a segment is made.

    The first of a log is small, and each next one twice as large up to `segment_bytes`, so that an
    empty log takes little of the disk.
    """
    return min(segment_bytes, FIRST_SEGMENT_BYTES << min(segment - 1, 16))


def create_spare(disk: Disk, directory: Path, header: SegmentHeader, capacity: int) -> None:
    """Create the next segment, preallocated; when this returns, it survives a power cut."""
    assert MIN_SEGMENT_BYTES <= capacity <= MAX_SEGMENT_BYTES
    fd = disk.open(path_of(directory, header.segment, SPARE_SUFFIX), create=True)
    try:
        disk.allocate(fd, capacity)
        disk.write(fd, [header.encode()], 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.sync_directory(directory)


def footer_at(disk: Disk, fd: int, segment: int, seed: int) -> int | None:
    """Return the offset of a sealed segment's footer; None for one that is not sealed."""
    size = disk.size(fd)
    if size < SEGMENT_HEADER_BYTES + TRAILER_BYTES:
        return None
    return decode_trailer(disk.read(fd, TRAILER_BYTES, size - TRAILER_BYTES), segment, seed)


def used_bytes(data: bytes) -> int:
    """Return the offset at which the zeros that end `data` begin."""
    end = len(data)
    while end:
        start = max(0, end - len(_ZEROS))
        piece = data[start:end]
        if piece != _ZEROS[: len(piece)]:
            return start + len(piece.rstrip(b"\0"))
        end = start
    return 0


class SegmentReader:
    """An open segment, for reads from any thread.

    It closes when its last holder drops it, so that a cache may drop it while another thread reads.
    """

    __slots__ = ("_disk", "_fd", "header", "seed", "segment")

    def __init__(self, disk: Disk, directory: Path, segment: int) -> None:
        self._disk = disk
        self._fd = -1
        self._fd = disk.open(path_of(directory, segment))
        header = decode_header(disk.read(self._fd, SEGMENT_HEADER_BYTES, 0))
        self.segment = segment
        self.header = header if header is not None and header.segment == segment else None
        self.seed = self.header.seed if self.header is not None else None

    def __del__(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)

    def whole(self) -> bytes:
        """Return all bytes of the file."""
        return self._disk.read(self._fd, self._disk.size(self._fd), 0)

    def size(self) -> int:
        return self._disk.size(self._fd)

    def drop_cache(self) -> None:
        """Make the next reads come from the device."""
        self._disk.drop_cache(self._fd)

    def raw(self, offset: int, length: int) -> bytes:
        """Return bytes of the file, unverified; fewer at its end."""
        return self._disk.read(self._fd, length, offset)

    def payload(self, offset: int, length: int) -> bytes | None:
        """Return the payload at `offset`; None if its frame does not verify."""
        if self.seed is None:
            return None
        data = self._disk.read(self._fd, frames.HEADER_BYTES + length, offset - frames.HEADER_BYTES)
        found = frames.parse(data, 0, self.segment, self.seed)
        if found is None or found.length != length or not frames.payload_holds(data, found):
            return None
        return data[frames.HEADER_BYTES :]

    def is_sealed(self) -> bool:
        """Return whether the segment ends with a trailer; its footer is not read."""
        return (
            self.seed is not None
            and footer_at(self._disk, self._fd, self.segment, self.seed) is not None
        )

    def footer_payload(self) -> bytes | None:
        """Return the payload of the footer; None if the segment is not sealed or the footer does
        not verify.
        """
        if self.seed is None:
            return None
        at = footer_at(self._disk, self._fd, self.segment, self.seed)
        if at is None:
            return None
        data = self._disk.read(self._fd, self._disk.size(self._fd) - at, at)
        found = frames.parse(data, 0, self.segment, self.seed)
        if found is None or found.kind != frames.FrameKind.FOOTER:
            return None
        if not frames.payload_holds(data, found):
            return None
        return data[found.payload_at : found.payload_at + found.length]
