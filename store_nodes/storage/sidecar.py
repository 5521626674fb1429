"""The file `<segment>.index`: the rows of a segment's footer, sorted, so that memory holds little
of it.

It is a cache: derived from the footer alone, never synced, rebuilt when it is missing or does not
verify. Little-endian:

    magic "PBIX" · version u16 · reserved u16 · segment u32 · seed u32 · stretches u32 ·
    groups u32 · rows u32 · instances u32 · lowest segment u32 · CRC32C u32 of the tables ·
    CRC32C u32 of the header before it
    stretches × (queue id 25 B · space u8 · reserved u16 · row start u32 · rows u32 · first u64 ·
                 end u64 · bytes u64 · shares u64 · last log time u64)
    groups × (group u64 · first instance u64 · last instance u64 · row start u32 · rows u32)
    rows, in pages of 128 with a CRC32C u32 behind each:
        base u64 · log time u64 · messages u32 · segment u32 · offset u32 · length u32 · extra u32
    instances, likewise: instance u64 · offset u32 · length u32
    extras: length u32 · CRC32C u32 · bytes each

Rows are sorted by (queue, space, base), and a stretch is a run of them without a gap. If a batch is
listed twice, the first counts. Instances are sorted by (group, instance) and the last record of
each counts. `lowest segment` is the lowest one that a row points to. `extra` is the place of a
released run's extra from the start of the extras, 0xFFFFFFFF for none.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from store_nodes.storage.rows import OFFSETS, STAGES, unpack_run
from store_nodes.storage.space import Extent
from store_nodes.wal.footer import RELEASED, STAGED, Footer
from store_nodes.wal.frame import FrameKind

VERSION = 1
PAGE_ROWS = 128
NO_EXTRA = 0xFFFFFFFF
ROW = struct.Struct("<QQIIIII")
INSTANCE = struct.Struct("<QII")
EXTRA = struct.Struct("<II")
_MAGIC = b"PBIX"
_HEAD = struct.Struct("<4sHHIIIIIIII")
_STRETCH = struct.Struct("<25sBHIIQQQQQ")
_GROUP = struct.Struct("<QQQII")
CRC_BYTES = 4
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size
_BREATH_ROWS = 1000


Holds = Callable[[bytes], bool]


class Run(NamedTuple):
    """The index of one attached segment: the places of its parts in the sidecar's file."""

    segment: int
    seed: int
    rows: int
    instances: int
    lowest_segment: int
    rows_at: int
    instances_at: int
    extras_at: int
    staged_rows: int


Stretch = tuple[bytes, int, int, int, int, int, int, int, int, int]
"""(queue, space, 0, row start, rows, first, end, bytes, shares, last log time): see `extent_of`."""


class Tables(NamedTuple):
    """The part of a sidecar that a start reads: its run, its stretches, and its groups.

    A group is (group, first instance, last instance, row start, rows).
    """

    run: Run
    stretches: list[Stretch]
    groups: list[tuple[int, int, int, int, int]]


def extent_of(segment: int, stretch: Stretch) -> tuple[bytes, int, Extent]:
    """Return the (queue, space, extent) of a stretch."""
    queue, space, _, start, count, first, end, size, shares, last_us = stretch
    return queue, space, Extent(first, end, segment, start, count, size, shares, last_us)


def stretch_of(queue: bytes, space: int, extent: Extent) -> Stretch:
    """Return the stretch of an extent."""
    first, end, _, start, count, size, shares, last_us = extent
    return queue, space, 0, start, count, first, end, size, shares, last_us


def build(footer: Footer, seed: int) -> bytes:
    """Return the whole file; other threads run between pieces, because footers can be long."""
    stretches, rows, extras, lowest = _batches(footer)
    groups, instances = _instances(footer)
    tables = b"".join((*stretches, *groups))
    head = _HEAD.pack(
        _MAGIC,
        VERSION,
        0,
        footer.segment,
        seed,
        len(stretches),
        len(groups),
        len(rows) // ROW.size,
        len(instances) // INSTANCE.size,
        lowest,
        crc32c(tables),
    )
    head += _CRC.pack(crc32c(head))
    return b"".join(
        (head, tables, *_pages(rows, ROW.size), *_pages(instances, INSTANCE.size), extras)
    )


def _batches(footer: Footer) -> tuple[list[bytes], bytearray, bytearray, int]:
    """Return the packed stretches, the rows, the extras and the lowest segment."""
    # Rows are grouped by queue first: one sort over everything would hold up all other threads.
    found: dict[tuple[bytes, int], list[tuple[int, int, int, int, int, int, int, bytes]]] = {}
    for count, entry in enumerate(footer.each_batch()):
        queue, base, messages, time_us, (segment, offset, length), flags, extra = entry
        if flags == RELEASED:
            length = unpack_run(extra).share_bytes
        space = STAGES if flags == STAGED else OFFSETS
        row = (base, count, messages, time_us, segment, offset, length, extra)
        found.setdefault((queue, space), []).append(row)
        _yield_gil(count)
    stretches: list[bytes] = []
    rows, extras = bytearray(), bytearray()
    lowest = footer.segment
    for queue, space in sorted(found):
        open_first = open_end = -1
        start = at = len(rows) // ROW.size
        size = shares = last_us = 0
        for base, _, messages, time_us, segment, offset, length, extra in sorted(
            found[queue, space]
        ):
            if base < open_end:
                continue
            if base != open_end:
                if at > start:
                    stretches.append(
                        _STRETCH.pack(
                            queue, space, 0, start, at - start, open_first, open_end,
                            size, shares, last_us,
                        )
                    )  # fmt: skip
                open_first, start, size, shares, last_us = base, at, 0, 0, 0
            extra_at = NO_EXTRA
            if extra:
                extra_at = len(extras)
                extras += EXTRA.pack(len(extra), crc32c(extra)) + extra
                shares += length
            elif segment < lowest:
                lowest = segment
            rows += ROW.pack(base, time_us, messages, segment, offset, length, extra_at)
            size += length
            last_us = max(last_us, time_us)
            open_end = base + messages
            at += 1
            _yield_gil(at)
        stretches.append(
            _STRETCH.pack(
                queue, space, 0, start, at - start, open_first, open_end, size, shares, last_us
            )
        )
    return stretches, rows, extras, lowest


def _instances(footer: Footer) -> tuple[list[bytes], bytearray]:
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for count, (kind, group, instance, at, length) in enumerate(footer.each_frame()):
        if kind in (FrameKind.ACCEPT, FrameKind.LEARN):
            found.setdefault(group, {})[instance] = (at, length)
        _yield_gil(count)
    groups: list[bytes] = []
    packed = bytearray()
    for group in sorted(found):
        of_group = found[group]
        order = sorted(of_group)
        start = len(packed) // INSTANCE.size
        groups.append(_GROUP.pack(group, order[0], order[-1], start, len(order)))
        for count, instance in enumerate(order):
            packed += INSTANCE.pack(instance, *of_group[instance])
            _yield_gil(count)
    return groups, packed


def _pages(rows: bytearray, row_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(rows), PAGE_ROWS * row_bytes):
        page = bytes(rows[start : start + PAGE_ROWS * row_bytes])
        yield page + _CRC.pack(crc32c(page))


def _yield_gil(count: int) -> None:
    if count % _BREATH_ROWS == _BREATH_ROWS - 1:
        time.sleep(0)


def page_span(row_bytes: int) -> int:
    """Return the bytes from the start of one page to that of the next."""
    return PAGE_ROWS * row_bytes + _CRC.size


def page_holds(raw: bytes) -> bool:
    return len(raw) > _CRC.size and crc32c(raw[: -_CRC.size]) == _CRC.unpack(raw[-_CRC.size :])[0]


def extra_holds(raw: bytes) -> bool:
    """Return whether `raw` is an extra with its length and CRC."""
    return len(raw) > EXTRA.size and crc32c(raw[EXTRA.size :]) == EXTRA.unpack_from(raw)[1]


def head_of(raw: bytes, segment: int, seed: int) -> int | None:
    """Return the bytes of header and tables of this segment's sidecar; None if `raw` is no such
    head.
    """
    if len(raw) < HEAD_BYTES or crc32c(raw[: _HEAD.size]) != _CRC.unpack_from(raw, _HEAD.size)[0]:
        return None
    magic, version, _, found, found_seed, stretches, groups, *_ = _HEAD.unpack_from(raw)
    if (magic, version, found, found_seed) != (_MAGIC, VERSION, segment, seed):
        return None
    return int(HEAD_BYTES + stretches * _STRETCH.size + groups * _GROUP.size)


def tables_of(raw: bytes) -> Tables | None:
    """Return the tables, from as many bytes as `head_of` says; None if they do not verify."""
    _, _, _, segment, seed, stretches, groups, rows, instances, lowest, crc = _HEAD.unpack_from(raw)
    groups_at = HEAD_BYTES + stretches * _STRETCH.size
    rows_at = groups_at + groups * _GROUP.size
    with memoryview(raw) as view:
        if len(raw) != rows_at or crc32c(view[HEAD_BYTES:]) != crc:
            return None
        instances_at = rows_at + _paged_bytes(rows, ROW.size)
        extras_at = instances_at + _paged_bytes(instances, INSTANCE.size)
        found = list(_STRETCH.iter_unpack(view[HEAD_BYTES:groups_at]))
        staged = sum(stretch[4] for stretch in found if stretch[1] == STAGES)
        run = Run(segment, seed, rows, instances, lowest, rows_at, instances_at, extras_at, staged)
        return Tables(run, found, list(_GROUP.iter_unpack(view[groups_at:])))


def _paged_bytes(rows: int, row_bytes: int) -> int:
    pages = (rows + PAGE_ROWS - 1) // PAGE_ROWS
    return rows * row_bytes + pages * _CRC.size
