"""Where each applied batch lies in this node's log: local, rebuilt at start, never replicated.

Per queue six packed arrays in offset order, 36 bytes a batch. It is filled from the footers of the
sealed segments, from the tail a checkpoint kept, and from every append applied since; the same
batch may come more than once (a restart applies again what the checkpoint had not seen) and only
the first counts: both copies are valid.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from store_nodes.wal.position import Position

_PACKED = struct.Struct("<25sQIQIQI")
PACKED_BYTES = _PACKED.size
_COMPACT_AT = 1024
"""Truncated batches are cut off the arrays once there are this many and they are half of them."""


class BatchEntry(NamedTuple):
    """One stored batch of a queue: offsets `base_offset` … `base_offset + messages - 1`."""

    queue: bytes
    base_offset: int
    messages: int
    log_time_us: int
    position: Position


class _Columns:
    """The batches of one queue, ascending; those before index `start` are truncated."""

    __slots__ = ("at", "bases", "counts", "lengths", "segments", "start", "times")

    def __init__(self) -> None:
        self.bases = array("Q")
        self.counts = array("I")
        self.times = array("Q")
        self.segments = array("I")
        self.at = array("Q")
        self.lengths = array("I")
        self.start = 0

    @property
    def end(self) -> int:
        """The offset after the last batch."""
        return self.bases[-1] + self.counts[-1] if self.bases else 0

    def keep_only(self, indexes: Sequence[int]) -> None:
        """Drop every batch but those at `indexes` (ascending)."""
        for name, typecode in (
            ("bases", "Q"),
            ("counts", "I"),
            ("times", "Q"),
            ("segments", "I"),
            ("at", "Q"),
            ("lengths", "I"),
        ):
            column = getattr(self, name)
            setattr(self, name, array(typecode, [column[index] for index in indexes]))


class BatchIndex:
    """Batches of all queues on this node."""

    def __init__(self) -> None:
        self._queues: dict[bytes, _Columns] = {}

    def add(
        self, queue: bytes, base_offset: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """False if the queue's batches already reach past `base_offset`: nothing was added."""
        assert messages > 0
        columns = self._queues.get(queue)
        if columns is None:
            columns = self._queues[queue] = _Columns()
        elif base_offset < columns.end:
            return False
        columns.bases.append(base_offset)
        columns.counts.append(messages)
        columns.times.append(log_time_us)
        columns.segments.append(position.segment)
        columns.at.append(position.offset)
        columns.lengths.append(position.length)
        return True

    def extend(self, entries: Iterable[BatchEntry]) -> None:
        """Add entries in the order they were applied, as footers and checkpoints list them."""
        for entry in entries:
            self.add(*entry)

    def locate(self, queue: bytes, offset: int, max_bytes: int) -> list[BatchEntry]:
        """Batches from the one that holds `offset` (else the next one) on, in order: as many as fit
        in `max_bytes`, but at least one if there is one.

        Below a truncation the batches of kept offsets are found, and some that are not kept: which
        offsets are readable is the machine's to say, and a kept one is best asked for alone
        (`max_bytes` 0)."""
        columns = self._queues.get(queue)
        if columns is None or offset >= columns.end:
            return []
        at = max(bisect_right(columns.bases, offset) - 1, 0)
        if columns.bases[at] + columns.counts[at] <= offset:
            at += 1
        found: list[BatchEntry] = []
        total_bytes = 0
        for index in range(at, len(columns.bases)):
            total_bytes += columns.lengths[index]
            if found and total_bytes > max_bytes:
                break
            found.append(_entry(queue, columns, index))
        return found

    def offset_at(self, queue: bytes, time_us: int) -> int | None:
        """The first offset whose batch has a log time of at least `time_us`; None if there is none
        (yet): the answer is then the queue's end, which the machine knows."""
        columns = self._queues.get(queue)
        if columns is None:
            return None
        at = bisect_left(columns.times, time_us, columns.start)
        return columns.bases[at] if at < len(columns.bases) else None

    def truncate(self, queue: bytes, first_offset: int, kept: Sequence[int] = ()) -> None:
        """Drop batches that lie wholly below `first_offset` and hold no offset of `kept`."""
        columns = self._queues.get(queue)
        if columns is None:
            return
        bases, counts = columns.bases, columns.counts
        start = bisect_right(bases, first_offset)
        if start and bases[start - 1] + counts[start - 1] > first_offset:
            start -= 1
        columns.start = start
        holding = _holding(columns, kept, start)
        # Rewriting costs as much as the queue is long, so it waits until half of it can go.
        if start - len(holding) >= _COMPACT_AT and 2 * (start - len(holding)) >= len(bases):
            columns.keep_only([*holding, *range(start, len(bases))])
            columns.start = len(holding)

    def drop(self, queue: bytes) -> None:
        """Forget a deleted queue."""
        self._queues.pop(queue, None)

    def queues(self) -> list[bytes]:
        """Queue ids that have batches here, also ones the machine has deleted since."""
        return list(self._queues)

    def batches(self, queue: bytes) -> int:
        """How many batches are held, for status."""
        columns = self._queues.get(queue)
        return len(columns.bases) - columns.start if columns is not None else 0

    def __len__(self) -> int:
        return sum(len(columns.bases) for columns in self._queues.values())


def pack_entries(entries: Iterable[BatchEntry]) -> bytes:
    """The layout of a checkpoint's tail, `PACKED_BYTES` an entry, little-endian:
    queue id 25 B · base offset u64 · messages u32 · log time u64 · segment u32 · offset u64 ·
    length u32."""
    pack = _PACKED.pack
    return b"".join(
        pack(queue, base, count, time_us, at.segment, at.offset, at.length)
        for queue, base, count, time_us, at in entries
    )


def unpack_entries(raw: bytes | memoryview) -> Iterator[BatchEntry]:
    """Raises ValueError if the length does not fit."""
    if len(raw) % PACKED_BYTES:
        raise ValueError("not a whole number of entries")
    for queue, base, count, time_us, segment, offset, length in _PACKED.iter_unpack(raw):
        yield BatchEntry(queue, base, count, time_us, Position(segment, offset, length))


def _entry(queue: bytes, columns: _Columns, index: int) -> BatchEntry:
    return BatchEntry(
        queue,
        columns.bases[index],
        columns.counts[index],
        columns.times[index],
        Position(columns.segments[index], columns.at[index], columns.lengths[index]),
    )


def _holding(columns: _Columns, kept: Sequence[int], below: int) -> list[int]:
    """Ascending indexes below `below` of batches that hold an offset of `kept`."""
    found: list[int] = []
    for offset in sorted(kept):
        index = bisect_right(columns.bases, offset) - 1
        if 0 <= index < below and offset < columns.bases[index] + columns.counts[index]:
            found.append(index)
    return list(dict.fromkeys(found))
