"""Writes compacted segments: wal/compacted.py has the order in which they come to count."""

from __future__ import annotations

from store_nodes.wal import frame as frames
from store_nodes.wal.batch_frame import batch_record, moved
from store_nodes.wal.footer import BatchEntry, BatchRows
from store_nodes.wal.identity import UID_BYTES
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.segment import (
    COMPACTING_SUFFIX,
    MAX_SEGMENT_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    path_of,
)
from store_nodes.wal.writer import seal

_WRITE_BYTES = 1024 * 1024
_SYNC_BYTES = 8 * 1024 * 1024
"""Bytes after which a sync is made, so that no other sync waits behind a whole segment."""


class CompactedWriter:
    """Takes batches and writes compacted segments; belongs to one thread at a time.

    An OSError is fatal to the node, like any other of the log.
    """

    def __init__(self, wal: WriteAheadLog, first_segment: int, segment_bytes: int) -> None:
        self._wal = wal
        self._disk = wal.disk
        self._next = first_segment
        self._segment_bytes = segment_bytes
        self._fd = -1
        self._number = self._seed = self._previous = 0
        self._end = self._written = self._synced = 0
        self._rows = BatchRows()
        self._buffers: list[bytes] = []
        self._buffered = 0
        self._unsynced = 0
        self.sizes: dict[int, int] = {}
        """File bytes of the segments that are whole, under their names."""

    def add(self, group: int, entry: BatchEntry, batch: bytes) -> None:
        """Add one live batch, or a released run without bytes; the footer then has its place."""
        record = batch_record(group, entry, batch)
        size = frames.frame_bytes(len(record.payload))
        if self._fd >= 0 and self._end + size + self._rows.size_bytes > self._segment_bytes:
            self._seal()
        if self._fd < 0:
            self._begin()
        assert self._end + size <= MAX_SEGMENT_BYTES
        encoded = frames.encode(
            (record,), self._number, self._seed, self._previous, self._synced, self._end
        )
        entry_there = moved(entry, encoded.positions[0], len(batch))
        self._rows.add(entry_there)
        self._buffers += encoded.buffers
        self._buffered += encoded.end - self._end
        self._previous, self._end = encoded.previous, encoded.end
        if self._buffered >= _WRITE_BYTES:
            self._flush()

    def finish(self) -> dict[int, int]:
        """End the last segment; all of them are durable under their names when this returns."""
        if self._fd >= 0:
            self._seal()
        if self.sizes:
            self._disk.sync_directory(self._wal.directory)
        return self.sizes

    def abandon(self) -> None:
        """Give up; the next start removes the files, or a later pass overwrites them."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close(fd)

    def _begin(self) -> None:
        identity = self._wal.identity
        self._number = self._next
        self._next += 1
        header = SegmentHeader(
            self._number,
            bytes.fromhex(identity.cluster_uid),
            identity.node_id,
            bytes.fromhex(identity.incarnation_uid),
            self._disk.random_bytes(UID_BYTES),
        )
        path = path_of(self._wal.directory, self._number, COMPACTING_SUFFIX)
        if path.name in self._disk.names(self._wal.directory):
            self._disk.remove(path)
        self._fd = self._disk.open(path, create=True)
        self._disk.write(self._fd, [header.encode()], 0)
        self._seed = self._previous = header.seed
        self._end = self._written = self._synced = SEGMENT_HEADER_BYTES
        self._rows = BatchRows()

    def _flush(self) -> None:
        self._disk.write(self._fd, [b"".join(self._buffers)], self._written)
        self._written += self._buffered
        self._unsynced += self._buffered
        self._buffers.clear()
        self._buffered = 0
        if self._unsynced >= _SYNC_BYTES:
            self._disk.sync_data(self._fd)
            self._synced, self._unsynced = self._written, 0

    def _seal(self) -> None:
        if self._buffered:
            self._flush()
        size = seal(
            self._disk,
            self._fd,
            self._rows.encode(),
            self._number,
            self._seed,
            self._previous,
            self._synced,
            self._end,
        )
        fd, self._fd = self._fd, -1
        self._disk.close(fd)
        directory = self._wal.directory
        final = path_of(directory, self._number)
        if final.name in self._disk.names(directory):
            self._disk.remove(final)
        self._disk.rename(path_of(directory, self._number, COMPACTING_SUFFIX), final)
        self.sizes[self._number] = size
