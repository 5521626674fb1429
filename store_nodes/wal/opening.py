"""Opens a directory as a log that can be written to; recovery.py explains the cases.

Before anything is believed, the directory and the last segment are synced, and its pages are
dropped from memory: a process that was killed leaves frames that only the page cache has, and after
a failed fsync the cache shows bytes that the disk never got.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from store_nodes.wal import compacted as compacted_list
from store_nodes.wal import identity as identities
from store_nodes.wal.compacted import CompactedList
from store_nodes.wal.disk import Disk
from store_nodes.wal.errors import IdentityMismatch
from store_nodes.wal.footer import encode_footer
from store_nodes.wal.frame import ALIGNMENT
from store_nodes.wal.identity import Identity
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage, DamageList, LastSegment, inspect_last
from store_nodes.wal.segment import (
    COMPACTED_SUFFIX,
    COMPACTING_SUFFIX,
    FIRST_COMPACTED,
    INDEX_SUFFIX,
    MIN_SEGMENT_BYTES,
    SEGMENT_HEADER_BYTES,
    SPARE_SUFFIX,
    SegmentHeader,
    SegmentReader,
    decode_header,
    path_of,
    preallocated_bytes,
    segment_of,
    used_bytes,
)
from store_nodes.wal.writer import SegmentWriter, seal

_TABLES_BYTES = 128 * 1024
"""Bytes that a start reads of most index files."""


class Opened(NamedTuple):
    """The parts of a `WriteAheadLog`."""

    identity: Identity
    fresh: bool
    writer: SegmentWriter
    segments: list[int]
    sizes: dict[int, int]
    """Bytes of each sealed and each compacted segment."""
    compacted: CompactedList
    torn: bool
    book: DamageList
    lock_fd: int


def open_directory(
    disk: Disk,
    directory: Path,
    cluster_uid: bytes,
    node_id: int,
    segment_bytes: int,
    start_at: Position | None,
) -> Opened:
    """Open a directory for `WriteAheadLog.open`; any exception releases the lock."""
    assert segment_bytes >= MIN_SEGMENT_BYTES
    disk.make_directory(directory)
    lock_fd = identities.lock(disk, directory)
    try:
        disk.sync_directory(directory)
        identity = identities.load(disk, directory)
        if identity is None:
            return _create(disk, directory, cluster_uid, node_id, segment_bytes, lock_fd)
        identities.check(identity, directory, cluster_uid, node_id)
        return _reopen(disk, directory, identity, segment_bytes, start_at, lock_fd)
    except BaseException:
        disk.close(lock_fd)
        raise


def _create(
    disk: Disk,
    directory: Path,
    cluster_uid: bytes,
    node_id: int,
    segment_bytes: int,
    lock_fd: int,
) -> Opened:
    """Create a new incarnation; `node.json` comes last, so that it shows that the directory is
    whole.
    """
    for name in disk.names(directory):
        if segment_of(name) is not None:
            _check_unused(disk, directory, name)
        if segment_of(name) is not None or segment_of(name, SPARE_SUFFIX) is not None:
            disk.remove(directory / name)
    identity = identities.fresh(disk, cluster_uid, node_id)
    writer = SegmentWriter(disk, directory, identity, segment_bytes)
    writer.activate(1)
    writer.prepare_spare()
    identities.store(disk, directory, identity)
    book = DamageList(disk, directory)
    return Opened(identity, True, writer, [1], {}, CompactedList(), False, book, lock_fd)


def _check_unused(disk: Disk, directory: Path, name: str) -> None:
    """Raise IdentityMismatch if a segment of a directory without node.json has frames.

    A first start that was cut short leaves only a segment without frames.
    """
    fd = disk.open(directory / name)
    try:
        if used_bytes(disk.read(fd, disk.size(fd), 0)) > SEGMENT_HEADER_BYTES:
            raise IdentityMismatch(f"{directory} holds {name} with records but no node.json")
    finally:
        disk.close(fd)


def _reopen(
    disk: Disk,
    directory: Path,
    identity: Identity,
    segment_bytes: int,
    start_at: Position | None,
    lock_fd: int,
) -> Opened:
    book = DamageList(disk, directory)
    compacted = _compacted_list(disk, directory, book)
    _remove_strays(disk, directory, compacted)
    book.forget(compacted.has_replaced)
    names = disk.names(directory)
    segments = sorted(one for name in names if (one := segment_of(name)) is not None)
    book.add(*_missing(segments, compacted.first_segment, start_at))
    # The files are prefetched, because a cold disk would take long to read them one after another.
    for one in (*compacted.segments, *segments):
        disk.prefetch(path_of(directory, one), SEGMENT_HEADER_BYTES)
        disk.prefetch(path_of(directory, one, INDEX_SUFFIX), _TABLES_BYTES)
    writer = SegmentWriter(disk, directory, identity, segment_bytes)
    newest = max([compacted.first_segment, *segments, *([start_at.segment] if start_at else [])])
    last = segments[-1] if segments and segments[-1] == newest else None
    sizes = {
        one: _check_sealed(disk, directory, identity, one, book)
        for one in (*compacted.segments, *segments)
        if one != last
    }
    torn = False
    resumed = False
    if last is not None:
        known_synced = start_at.offset if start_at and start_at.segment == last else 0
        resumed, torn, size = _open_last(
            disk, directory, identity, last, known_synced, segment_bytes, writer, book
        )
        if not resumed:
            sizes[last] = size
    active = newest if resumed else newest + 1
    _keep_spare(disk, directory, identity, active + 1 if resumed else active, writer)
    if not resumed:
        writer.activate(active)
        segments.append(active)
    writer.prepare_spare()
    return Opened(identity, False, writer, segments, sizes, compacted, torn, book, lock_fd)


def _compacted_list(disk: Disk, directory: Path, book: DamageList) -> CompactedList:
    """Return the list of compacted segments; if it is damaged, make one of all files that exist.

    No file has wrong bytes, and a missing one shows in the offsets that the index does not cover.
    """
    found = compacted_list.load(disk, directory)
    if found is not None:
        return found
    names = disk.names(directory)
    raw = [one for name in names if (one := segment_of(name)) is not None]
    compacted = [one for name in names if (one := segment_of(name, COMPACTED_SUFFIX)) is not None]
    made = CompactedList(
        first_segment=min(raw, default=1),
        segments=tuple(sorted(compacted)),
        next_segment=max([FIRST_COMPACTED, *(one + 1 for one in compacted)]),
    )
    book.add(Damage(FIRST_COMPACTED, 0, 0, "the list of compacted segments"))
    compacted_list.store(disk, directory, made)
    return made


def _remove_strays(disk: Disk, directory: Path, compacted: CompactedList) -> None:
    """Remove files of a compaction that was cut short, and files that a power cut brought back."""
    listed = set(compacted.segments)
    for name in disk.names(directory):
        segment = segment_of(name)
        done = segment_of(name, COMPACTED_SUFFIX)
        unlisted = done is not None and done not in listed
        resurrected = segment is not None and segment < compacted.first_segment
        if unlisted or resurrected or segment_of(name, COMPACTING_SUFFIX) is not None:
            disk.remove(directory / name)
    names = disk.names(directory)
    for name in names:
        segment = segment_of(name, INDEX_SUFFIX)
        if segment is not None and path_of(directory, segment).name not in names:
            disk.remove(directory / name)


def _missing(segments: list[int], first: int, start_at: Position | None) -> list[Damage]:
    """Return the gaps between segments, which are numbered from `first` to the checkpoint's at
    least.
    """
    found: list[Damage] = []
    expected = first
    for segment in segments:
        found += [Damage(one, 0, 0, "missing") for one in range(expected, segment)]
        expected = segment + 1
    if expected == first or (start_at is not None and start_at.segment >= expected):
        found.append(Damage(expected, 0, 0, "missing: the log ends before it"))
    return found


def _check_header(header: SegmentHeader, identity: Identity, path: Path) -> None:
    if header.incarnation_uid.hex() != identity.incarnation_uid:
        raise IdentityMismatch(f"{path} was written by another incarnation or node")


def _check_sealed(
    disk: Disk, directory: Path, identity: Identity, segment: int, book: DamageList
) -> int:
    """Check the header and trailer of a segment that is not the last; return its size in bytes."""
    path = path_of(directory, segment)
    try:
        reader = SegmentReader(disk, directory, segment)
    except FileNotFoundError:
        book.add(Damage(segment, 0, 0, "missing"))
        return 0
    size = reader.size()
    if reader.header is None:
        book.add(Damage(segment, 0, SEGMENT_HEADER_BYTES, "segment header"))
        return size
    _check_header(reader.header, identity, path)
    if not reader.is_sealed():
        book.add(Damage(segment, size, size, "footer"))
    return size


def _open_last(
    disk: Disk,
    directory: Path,
    identity: Identity,
    segment: int,
    known_synced: int,
    segment_bytes: int,
    writer: SegmentWriter,
    book: DamageList,
) -> tuple[bool, bool, int]:
    """Open the last segment; return whether the writer continues in it, whether a torn tail was
    cut, its size.
    """
    path = path_of(directory, segment)
    fd = disk.open(path)
    disk.sync(fd)
    disk.drop_cache(fd)
    data = disk.read(fd, disk.size(fd), 0)
    header = decode_header(data[:SEGMENT_HEADER_BYTES])
    if header is None or header.segment != segment:
        book.add(Damage(segment, 0, SEGMENT_HEADER_BYTES, "segment header"))
        disk.close(fd)
        return False, False, len(data)
    _check_header(header, identity, path)
    if SegmentReader(disk, directory, segment).footer_payload() is not None:
        disk.close(fd)
        return False, False, len(data)
    found = inspect_last(data, segment, header.seed, known_synced)
    if found.damages:
        book.add(*found.damages)
        size = _seal_damaged(disk, fd, segment, header.seed, found)
        return False, False, size
    if found.torn:
        disk.truncate(fd, found.end)
    wanted = preallocated_bytes(segment, segment_bytes)
    if found.torn or len(data) < wanted:
        disk.allocate(fd, max(len(data), wanted))
        disk.sync(fd)
        disk.sync_directory(directory)
    writer.resume(segment, fd, header.seed, found)
    return True, found.torn, 0


def _seal_damaged(disk: Disk, fd: int, segment: int, seed: int, found: LastSegment) -> int:
    """Close a damaged segment as it is: its footer goes behind all of its bytes."""
    at = found.end + (-found.end % ALIGNMENT)
    footer = encode_footer(found.index_rows, [])
    size = seal(disk, fd, footer, segment, seed, found.previous, at, at)
    disk.close(fd)
    return size


def _keep_spare(
    disk: Disk, directory: Path, identity: Identity, number: int, writer: SegmentWriter
) -> None:
    """Use an existing spare if it is whole and the next one; remove any other."""
    for name in disk.names(directory):
        spare = segment_of(name, SPARE_SUFFIX)
        if spare is None:
            continue
        if spare == number and _is_whole_spare(disk, directory / name, identity, number):
            writer.spare_ready = True
        else:
            disk.remove(directory / name)


def _is_whole_spare(disk: Disk, path: Path, identity: Identity, number: int) -> bool:
    fd = disk.open(path)
    try:
        disk.sync(fd)
        header = decode_header(disk.read(fd, SEGMENT_HEADER_BYTES, 0))
        if header is None or header.segment != number:
            return False
        if header.incarnation_uid.hex() != identity.incarnation_uid:
            return False
        return disk.size(fd) >= MIN_SEGMENT_BYTES
    finally:
        disk.close(fd)
