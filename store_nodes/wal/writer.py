"""Writes the end of the log: the active segment, its seal, and the spare that replaces it.

Order on disk, each step synced before the next: footer and trailer of the full segment, cut to size
· the spare renamed to its final name, with its directory · frames of the new segment. So a start
finds at most one segment without a footer, and it is the last.

Preallocated blocks were never written, and the file system has to note in its journal when they
are: an fdatasync that makes it do so takes half as long again. So a small write that reaches such
blocks ends with zeros up to the next multiple of `AHEAD_BYTES`, and the writes that follow find
blocks that are written already. Zeros behind the last frame are what a start expects there, whether
they reached the disk or not.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from store_nodes.wal import frame as frames
from store_nodes.wal.disk import Disk
from store_nodes.wal.footer import FOOTER_HEAD_BYTES, TRAILER_BYTES, encode_trailer
from store_nodes.wal.frame import Encoded, FrameKind, Record
from store_nodes.wal.identity import UID_BYTES, Identity
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import LastSegment
from store_nodes.wal.segment import (
    MAX_SEGMENT_BYTES,
    SEGMENT_HEADER_BYTES,
    SPARE_SUFFIX,
    SegmentHeader,
    create_spare,
    decode_header,
    path_of,
    preallocated_bytes,
)

AHEAD_BYTES = 512 * 1024
"""Bytes of zeros that one write puts behind its frames at most."""
SMALL_WRITE_BYTES = 96 * 1024
"""Size of the largest write that ends with zeros; for others, they cost more than they save."""

_ZEROS = bytes(AHEAD_BYTES)
_MARK = (Record(FrameKind.SYNC_MARK, 0, 0, 0, b""),)
_PER_RECORD_BYTES = frames.HEADER_BYTES + frames.ALIGNMENT + frames.INDEX_BYTES
_FOOTER_BYTES = frames.HEADER_BYTES + frames.ALIGNMENT + FOOTER_HEAD_BYTES + TRAILER_BYTES


class SegmentWriter:
    """Writes the active segment; one thread at a time owns it.

    After any exception, do not use it again.
    """

    def __init__(self, disk: Disk, directory: Path, identity: Identity, segment_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._identity = identity
        self._segment_bytes = segment_bytes
        self._fd = -1
        self.number = 0
        self.seed = 0
        self.capacity = 0
        self.end = 0
        """The offset of the next frame."""
        self.synced = 0
        """The offset below which everything is durable."""
        self._filled = 0
        """The offset below which every block is known to be written."""
        self.previous = 0
        """The header CRC of the frame before `end`, or the seed."""
        self.index = bytearray()
        self.spare_ready = False

    def resume(self, number: int, fd: int, seed: int, last: LastSegment) -> None:
        """Continue behind the frames of a segment that a start found and synced."""
        assert not last.damages, "a damaged segment is never written to"
        assert last.end % frames.ALIGNMENT == 0, f"frames end at {last.end}, within a word"
        self._take(number, fd, seed)
        self.end = self.synced = self._filled = last.end
        self.previous = last.previous
        self.index = bytearray(last.index_rows)

    def activate(self, number: int, capacity: int = 0) -> None:
        """Make segment `number` the active one, from the spare if there is one."""
        assert number == self.number + 1 or not self.number, f"segment {number} after {self.number}"
        wanted = max(capacity, self._preallocated_bytes(number))
        if not self.spare_ready:
            self._create(number, wanted)
        self.spare_ready = False
        spare = path_of(self._directory, number, SPARE_SUFFIX)
        final = path_of(self._directory, number)
        fd = self._disk.open(spare)
        if self._disk.size(fd) < wanted:
            self._disk.allocate(fd, wanted)
            self._disk.sync(fd)
        self._disk.rename(spare, final)
        self._disk.sync_directory(self._directory)
        header = decode_header(self._disk.read(fd, SEGMENT_HEADER_BYTES, 0))
        if header is None:
            # It was checked when it was made or found; the next start makes another one.
            raise OSError(errno.EIO, f"the header of segment {number} does not read back")
        assert header.segment == number, f"the spare of {header.segment} as segment {number}"
        self.index = bytearray()
        self._take(number, fd, header.seed)
        self.end = self.synced = self._filled = SEGMENT_HEADER_BYTES
        self.previous = header.seed

    def _take(self, number: int, fd: int, seed: int) -> None:
        self._fd = fd
        self.number = number
        self.seed = seed
        self.capacity = self._disk.size(fd)

    def prepare_spare(self) -> None:
        if not self.spare_ready:
            self._create(self.number + 1, self.spare_bytes)
            self.spare_ready = True

    @property
    def spare_bytes(self) -> int:
        """Bytes of the next segment, whether it exists already or not."""
        return self._preallocated_bytes(self.number + 1)

    def _preallocated_bytes(self, number: int) -> int:
        return preallocated_bytes(number, self._segment_bytes)

    def _create(self, number: int, capacity: int) -> None:
        header = SegmentHeader(
            number,
            bytes.fromhex(self._identity.cluster_uid),
            self._identity.node_id,
            bytes.fromhex(self._identity.incarnation_uid),
            self._disk.random_bytes(UID_BYTES),
        )
        create_spare(self._disk, self._directory, header, capacity)

    def room_needed(self, payload_bytes: int, records: int, batch_bytes: int) -> int:
        """Return an upper bound of the bytes that records take, with the footer that lists them."""
        rows = len(self.index) + batch_bytes
        return payload_bytes + records * _PER_RECORD_BYTES + rows + _FOOTER_BYTES

    def fits(self, need: int) -> bool:
        """Return whether `need` more bytes fit into the active segment."""
        return self.end + need <= self.capacity

    def grow(self, need: int) -> None:
        """Make an empty segment as large as its one write."""
        assert self.end == SEGMENT_HEADER_BYTES, "only a segment without frames grows"
        wanted = self.end + need
        assert wanted <= MAX_SEGMENT_BYTES, f"{need} bytes in one write"
        self._disk.allocate(self._fd, wanted)
        self._disk.sync(self._fd)
        self.capacity = wanted

    def append(self, records: Sequence[Record]) -> list[Position]:
        """Write records as frames behind the last one; they are durable after the next `sync`."""
        encoded = frames.encode(
            records, self.number, self.seed, self.previous, self.synced, self.end
        )
        self._write(encoded)
        self.index += encoded.index_rows
        return encoded.positions

    def mark(self) -> None:
        """Write a frame that says how far the segment is synced."""
        self._write(
            frames.encode(_MARK, self.number, self.seed, self.previous, self.synced, self.end)
        )

    def _write(self, encoded: Encoded) -> None:
        """Write frames behind the last one, and zeros behind them if their blocks are new."""
        end = encoded.end
        assert end <= self.capacity, "a write straddles two segments"
        assert end % frames.ALIGNMENT == 0, f"frames end at {end}, within a word"
        buffers = encoded.buffers
        if end > self._filled:
            self._filled = end
            if end - self.end <= SMALL_WRITE_BYTES:
                self._filled = min(self.capacity, (end // AHEAD_BYTES + 1) * AHEAD_BYTES)
                buffers.append(_ZEROS[: self._filled - end])
        self._disk.write(self._fd, buffers, self.end)
        self.previous = encoded.previous
        self.end = end

    def sync(self) -> None:
        """Make everything that was written durable, with one fdatasync."""
        self._disk.sync_data(self._fd)
        self.synced = self.end

    def seal(self, footer: bytes) -> int:
        """End the segment, with its frames and footer durable; return the size of the file."""
        self._fd, fd = -1, self._fd
        size = seal(
            self._disk, fd, footer, self.number, self.seed, self.previous, self.synced, self.end
        )
        self._disk.close(fd)
        self.index = bytearray()
        return size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close(fd)


def seal(
    disk: Disk,
    fd: int,
    footer: bytes,
    number: int,
    seed: int,
    previous: int,
    synced: int,
    at: int,
) -> int:
    """Write the footer and the trailer at `at`, cut the file there and sync it."""
    record = Record(FrameKind.FOOTER, 0, 0, 0, footer)
    encoded = frames.encode((record,), number, seed, previous, synced, at)
    size = encoded.end + TRAILER_BYTES
    disk.write(fd, [*encoded.buffers, encode_trailer(at, number, seed)], at)
    disk.truncate(fd, size)
    disk.sync(fd)
    return size
