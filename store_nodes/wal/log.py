"""Writes and reads the write-ahead log of a node.

Contract:

* `write` puts records behind each other with one call to the disk and returns their positions. Rely
  on them, and send messages that depend on them, only after the `sync` that follows.
* `sync` is one fdatasync. Records written before it survive any power cut.
* The first exception of `write`, `mark`, `sync`, `prepare_spare` or `close` is final: every later
  call raises WalClosed, and the process must exit without sending anything more.
* Those five belong to one thread at a time (the flush thread of `GroupCommit`); all other calls may
  come from any thread.

A write never straddles two segments. If it does not fit, the segment is sealed and the spare takes
its place; a frame larger than a segment gets a segment of its own size.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from store_nodes.wal import compacted as compacted_list
from store_nodes.wal import opening
from store_nodes.wal.compacted import CompactedList
from store_nodes.wal.disk import Disk, OsDisk
from store_nodes.wal.errors import BadFooter, WalClosed, WalDamaged
from store_nodes.wal.footer import BatchEntry, BatchRows, Footer, decode_footer
from store_nodes.wal.frame import Record
from store_nodes.wal.identity import Identity
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage, Recovery
from store_nodes.wal.segment import (
    INDEX_SUFFIX,
    SEGMENT_HEADER_BYTES,
    SegmentReader,
    path_of,
)

DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024
MAX_OPEN_READERS = 64


class WriteAheadLog:
    """The log of a node, made by `open`; the module's docstring has its contract."""

    def __init__(self, opened: opening.Opened, disk: Disk, directory: Path) -> None:
        self.directory = directory
        self.identity: Identity = opened.identity
        self._disk = disk
        self._writer = opened.writer
        self.damages = opened.book
        """The damages that this log knows; a damage that a `read` finds is to be added."""
        self._lock_fd = opened.lock_fd
        self._sizes = opened.sizes
        self._compacted = opened.compacted
        self._tail = Position(self._writer.number, self._writer.synced, 0)
        self._marked = True
        self._failed = False
        self._closed = False
        self._noted = BatchRows()
        self._sealing = BatchRows()
        """Batches that are being written into a footer."""
        self._noted_lock = threading.Lock()
        self._readers: OrderedDict[int, SegmentReader] = OrderedDict()
        self._readers_lock = threading.Lock()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        cluster_uid: bytes,
        node_id: int,
        disk: Disk | None = None,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        start_at: Position | None = None,
    ) -> tuple[WriteAheadLog, Recovery]:
        """Lock the directory, check its identity, and bring the last segment to a known end.

        `start_at` is the `tail` at which the newest checkpoint was taken; a log that ends before it
        is damaged. Raises DirectoryLocked, IdentityMismatch, WalUnsupported, OSError.
        """
        disk = disk or OsDisk()
        opened = opening.open_directory(
            disk, directory, cluster_uid, node_id, segment_bytes, start_at
        )
        log = cls(opened, disk, directory)
        recovery = Recovery(
            segments=opened.segments,
            compacted=opened.compacted.segments,
            fresh=opened.fresh,
            torn=opened.torn,
            book=opened.book,
            reader=log.reader,
        )
        return log, recovery

    # The flush thread.

    def write(self, records: Sequence[Record]) -> list[Position]:
        """Append records in order with one write; they are durable after the next `sync`."""
        with self._fatal():
            self._make_room(sum([len(record.payload) for record in records]), len(records))
            positions = self._writer.append(records)
            self._marked = False
            return positions

    def sync(self) -> None:
        """Make everything written so far durable, with one fdatasync."""
        with self._fatal():
            writer = self._writer
            writer.sync()
            self._tail = Position(writer.number, writer.synced, 0)

    @property
    def marked(self) -> bool:
        """Whether the log on disk says how far it is synced; False after a flush."""
        return self._marked

    def mark(self) -> None:
        """Write a frame that says how far the segment is synced; it needs a `sync` like any other
        write.

        Without it, bit rot in the last flush of an idle log would look like a torn tail.
        """
        with self._fatal():
            self._make_room(0, 1)
            self._writer.mark()
            self._marked = True

    @property
    def wants_spare(self) -> bool:
        """Whether a spare segment has to be prepared."""
        return not self._writer.spare_ready

    def prepare_spare(self) -> None:
        """Reserve the next segment, so that the next change of segments only renames it."""
        with self._fatal():
            self._writer.prepare_spare()

    def close(self) -> None:
        """Sync and mark the written records, and release the directory; after a failure only
        release it.
        """
        if self._closed:
            return
        try:
            if not self._failed:
                self.sync()
                if not self._marked:
                    self.mark()
                    self.sync()
        finally:
            self._closed = True
            with self._readers_lock:
                self._readers.clear()
            try:
                self._writer.close()
            finally:
                self._disk.close(self._lock_fd)

    # Any thread.

    @property
    def tail(self) -> Position:
        """The place of the next frame after all that is durable; a checkpoint records it."""
        return self._tail

    def read(self, position: Position) -> bytes:
        """Return the payload at `position`, which `write` or `Recovery` returned; raises
        WalDamaged.
        """
        segment, offset, length = position
        payload = self._reader_or_damage(segment).payload(offset, length)
        if payload is None:
            raise WalDamaged(Damage(segment, offset, offset + length, "payload"))
        return payload

    def read_slice(self, position: Position) -> bytes:
        """Return bytes inside a payload, **not verified**: a record batch has its own CRC. Raises
        WalDamaged if they are missing.
        """
        segment, offset, length = position
        raw = self._reader_or_damage(segment).raw(offset, length)
        if len(raw) != length:
            raise WalDamaged(Damage(segment, offset, offset + length, "missing"))
        return raw

    def footer(self, segment: int) -> Footer:
        """Return the index of a sealed segment; raises WalDamaged if it does not verify."""
        payload = self._reader_or_damage(segment).footer_payload()
        if payload is None:
            raise WalDamaged(Damage(segment, 0, 0, "footer"))
        try:
            return decode_footer(segment, payload)
        except BadFooter as error:
            raise WalDamaged(Damage(segment, 0, 0, "footer")) from error

    def note_batches(self, entries: Iterable[BatchEntry]) -> None:
        """List batches that were applied since the last call in the next footer."""
        with self._noted_lock:
            for entry in entries:
                self._noted.add(entry)

    def unfootered_batches(self) -> list[BatchEntry]:
        """Return the batches that are in no synced footer yet: a checkpoint must have them."""
        with self._noted_lock:
            return self._sealing.entries() + self._noted.entries()

    @property
    def used_bytes(self) -> int:
        """Bytes of the segments and the spare; preallocated ones count in full."""
        spare = self._writer.spare_bytes if self._writer.spare_ready else 0
        return sum(self.sizes().values()) + self._writer.capacity + spare

    def sizes(self) -> dict[int, int]:
        """Return the file bytes of every sealed and every compacted segment."""
        return dict(self._sizes)

    @property
    def compacted(self) -> CompactedList:
        """The compacted segments in use, and the number at which the raw ones begin."""
        return self._compacted

    @property
    def disk(self) -> Disk:
        return self._disk

    def commit_compaction(self, compacted: CompactedList, sizes: Mapping[int, int]) -> None:
        """Make `settled` the list; its new segments (`sizes`) must be durable under their names
        before.

        The segments that it leaves out may be removed from now on, and the next start does not need
        them.
        """
        assert compacted.is_sound, f"not a list of compacted segments: {compacted}"
        assert compacted.first_segment >= self._compacted.first_segment, "raw segments come back"
        assert compacted.next_segment >= self._compacted.next_segment, "a segment is used twice"
        compacted_list.store(self._disk, self.directory, compacted)
        self._sizes.update(sizes)
        self._compacted = compacted

    def forget_instances(self, oldest: Mapping[int, int]) -> None:
        """Let each group's instances begin at `oldest`; durable when this returns.

        The log may hold values of earlier ones that were not chosen.
        """
        known = self._compacted.oldest
        raised = {group: max(one, known.get(group, 0)) for group, one in oldest.items()}
        compacted = msgspec.structs.replace(self._compacted, oldest={**known, **raised})
        if compacted.oldest != known:
            self.commit_compaction(compacted, {})

    def remove_segments(self, segments: Iterable[int]) -> None:
        """Delete the files and caches of segments that the list left out.

        A removal is not durable, and need not be: see compacted.py.
        """
        names = set(self._disk.names(self.directory))
        removed = frozenset(segments)
        for segment in removed:
            assert self._compacted.has_replaced(segment), f"segment {segment} is not compacted"
            for suffix in (None, INDEX_SUFFIX):
                path = path_of(self.directory, segment, suffix)
                if path.name in names:
                    self._disk.remove(path)
            self._sizes.pop(segment, None)
            with self._readers_lock:
                self._readers.pop(segment, None)
        self.damages.forget(removed.__contains__)

    def free_bytes(self) -> int:
        """Return the free bytes of the file system, beyond those that the log has reserved."""
        return self._disk.free_bytes(self.directory)

    def reader(self, segment: int) -> SegmentReader:
        """Return an open segment from a bounded cache; raise FileNotFoundError."""
        with self._readers_lock:
            reader = self._readers.get(segment)
            if reader is None:
                reader = SegmentReader(self._disk, self.directory, segment)
                self._readers[segment] = reader
                if len(self._readers) > MAX_OPEN_READERS:
                    self._readers.popitem(last=False)
            else:
                self._readers.move_to_end(segment)
            return reader

    def _reader_or_damage(self, segment: int) -> SegmentReader:
        """Return an open segment; raise WalDamaged if its file is missing."""
        try:
            return self.reader(segment)
        except FileNotFoundError:
            raise WalDamaged(Damage(segment, 0, 0, "missing")) from None

    @contextmanager
    def _fatal(self) -> Iterator[None]:
        """Run a change of the file; any exception in it is final."""
        if self._failed or self._closed:
            raise WalClosed("the log failed before" if self._failed else "the log is closed")
        self._failed = True
        yield
        self._failed = False

    def _make_room(self, payload_bytes: int, records: int) -> None:
        """Seal the active segment and activate the next one, unless the records fit."""
        writer = self._writer
        need = writer.room_needed(payload_bytes, records, self._noted.size_bytes)
        if writer.fits(need):
            return
        if writer.end == SEGMENT_HEADER_BYTES:
            writer.grow(need)
            return
        self._seal()
        need = writer.room_needed(payload_bytes, records, self._noted.size_bytes)
        writer.activate(writer.number + 1, SEGMENT_HEADER_BYTES + need)

    def _seal(self) -> None:
        with self._noted_lock:
            self._sealing, self._noted = self._noted, BatchRows()
        payload = self._sealing.encode(bytes(self._writer.index))
        number = self._writer.number
        self._sizes[number] = self._writer.seal(payload)
        # The list is cleared only now: a checkpoint taken during the seal must still see the
        # batches.
        with self._noted_lock:
            self._sealing = BatchRows()
