"""The tail of a checkpoint: index entries of applied batches that no segment footer lists yet.

It has two parts: plain appends in the layout of the first version, and after them, in a field of
their own, staged batches and released runs as in a footer. An older program reads the first part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from store_nodes.wal.footer import APPENDED, BatchEntry, BatchRows, decode_footer
from store_nodes.wal.position import Position

_PACKED = struct.Struct("<25sQIQIQI")
PACKED_BYTES = _PACKED.size


def pack_tail(entries: Iterable[BatchEntry]) -> tuple[bytes, bytes]:
    """Return the two parts: appends, and the rest.

    An append takes `PACKED_BYTES`, little-endian: queue id 25 B · base offset u64 · messages u32 ·
    log time u64 · segment u32 · offset u64 · length u32. The rest is empty or the payload of a
    footer without frames.
    """
    pack = _PACKED.pack
    appends: list[bytes] = []
    rest = BatchRows()
    for entry in entries:
        if entry.flags == APPENDED:
            queue, base, count, time_us, at, _, _ = entry
            appends.append(pack(queue, base, count, time_us, at.segment, at.offset, at.length))
        else:
            rest.add(entry)
    return b"".join(appends), rest.encode() if len(rest) else b""


def unpack_tail(appends: bytes, rest: bytes) -> Iterator[BatchEntry]:
    """Yield the entries of both parts; raises ValueError if a length does not fit."""
    if len(appends) % PACKED_BYTES:
        raise ValueError("not a whole number of entries")
    for queue, base, count, time_us, segment, offset, length in _PACKED.iter_unpack(appends):
        yield BatchEntry(queue, base, count, time_us, Position(segment, offset, length))
    if rest:
        yield from decode_footer(0, rest).each_batch()
