"""A BATCH frame: one applied batch outside of any Paxos value, with its row of the index.

Compacted segments consist of such frames, and batches fetched from a peer enter the log in them.
The frame's instance is the batch's base, its ballot the log time; its payload is

    queue id 25 B · flags u8 · messages u32 · base u64 · log time u64 · extra length u32 ·
    extra · batch

with flags and extra as in a footer. A released run has no batch of its own, because its bytes are
in the staged batch.
"""

from __future__ import annotations

import struct

from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.position import Position

_HEAD = struct.Struct("<25sBIQQI")


def batch_record(group: int, entry: BatchEntry, batch: bytes) -> Record:
    """Return the record to write; the entry's own position says where the batch came from and is
    not used.
    """
    queue, base, messages, log_time_us, _, flags, extra = entry
    head = _HEAD.pack(queue, flags, messages, base, log_time_us, len(extra))
    return Record(FrameKind.BATCH, group, base, log_time_us, b"".join((head, extra, batch)))


def entry_at(payload: bytes, position: Position) -> BatchEntry:
    """Return the entry of a BATCH frame whose payload is at `position`.

    Its own position is that of the batch inside, which is empty for a released run.
    """
    queue, flags, messages, base, log_time_us, extra_bytes = _HEAD.unpack_from(payload)
    at = _HEAD.size + extra_bytes
    inside = Position(position.segment, position.offset + at, position.length - at)
    extra = payload[_HEAD.size : at]
    return BatchEntry(queue, base, messages, log_time_us, inside, flags, extra)


def moved(entry: BatchEntry, position: Position, batch_bytes: int) -> BatchEntry:
    """Return the entry with the position at which its record was written."""
    at = position.offset + position.length - batch_bytes
    return entry._replace(position=Position(position.segment, at, batch_bytes))
