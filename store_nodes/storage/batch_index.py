"""Where each applied batch lies in this node's log: local, rebuilt at start, never replicated.

It is filled from the segments' footers, from the tail a checkpoint kept, and from everything
applied since. The same batch may come more than once (a restart applies again what the checkpoint
had not seen) and only the first counts: both copies are valid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from store_nodes.storage.rows import OFFSETS, STAGES, Row, pack_run, space_of, unpack_run
from store_nodes.storage.tail import Tail
from store_nodes.wal.footer import APPENDED, RELEASED, STAGED, BatchEntry
from store_nodes.wal.position import Position

_PACKED = struct.Struct("<25sQIQIQI")
PACKED_BYTES = _PACKED.size


class Located(NamedTuple):
    """A stored batch as a reader gets it. `stage` and `indices` are None for a plain append; of a
    released run they say which messages of the staged batch at `position` have the offsets
    `base_offset` … `base_offset + messages - 1`: those at `indices` of the batch that begins at
    stage number `stage`."""

    base_offset: int
    messages: int
    log_time_us: int
    position: Position
    stage: int | None = None
    indices: tuple[int, ...] | None = None


class _Queue:
    __slots__ = ("first", "kept", "tails")

    def __init__(self) -> None:
        self.tails = (Tail(), Tail())
        self.first = 0
        self.kept: tuple[int, ...] = ()


class BatchIndex:
    """Batches of all queues on this node."""

    def __init__(self) -> None:
        self._queues: dict[bytes, _Queue] = {}

    # -- what is applied -----------------------------------------------------------------------

    def add(
        self, queue: bytes, base_offset: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """An appended batch. False if those offsets are held already: nothing was added."""
        return self._add(OFFSETS, queue, base_offset, messages, log_time_us, position)

    def add_staged(
        self, queue: bytes, base_stage: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """A staged batch; False as in `add`."""
        return self._add(STAGES, queue, base_stage, messages, log_time_us, position)

    def add_released(
        self,
        queue: bytes,
        base_offset: int,
        log_time_us: int,
        stage_base: int,
        indices: Sequence[int],
    ) -> bool:
        """Messages of a staged batch that got offsets from `base_offset` on; False as in `add`."""
        return self.add_entry(
            self.released_entry(queue, base_offset, log_time_us, stage_base, indices)
        )

    def released_entry(
        self,
        queue: bytes,
        base_offset: int,
        log_time_us: int,
        stage_base: int,
        indices: Sequence[int],
    ) -> BatchEntry:
        """The footer's row of a released run, with the place of its staged batch."""
        staged = self._row(queue, STAGES, stage_base)
        position = staged.position if staged is not None else Position(0, 0, 0)
        extra = pack_run(stage_base, indices)
        return BatchEntry(queue, base_offset, len(indices), log_time_us, position, RELEASED, extra)

    def add_entry(self, entry: BatchEntry) -> bool:
        """A footer's row of any kind; False as in `add`."""
        queue, base, messages, log_time_us, position, flags, extra = entry
        if not self._add(space_of(flags), queue, base, messages, log_time_us, position):
            return False
        if flags == RELEASED:
            self._queues[queue].tails[OFFSETS].odd[base] = (flags, extra)
        return True

    def extend(self, entries: Iterable[BatchEntry]) -> None:
        for entry in entries:
            self.add_entry(entry)

    def _add(
        self, space: int, queue: bytes, base: int, messages: int, time_us: int, position: Position
    ) -> bool:
        assert messages > 0
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = _Queue()
        tail = found.tails[space]
        if base >= tail.end:
            tail.append(base, messages, time_us, position)
            return True
        return tail.insert(base, messages, time_us, position)

    # -- reads ---------------------------------------------------------------------------------

    def locate(self, queue: bytes, offset: int, max_bytes: int) -> list[Located]:
        """Batches from the one that holds `offset` (else the next one) on, in order and without a
        gap between them: as many as fit in `max_bytes`, but at least one if there is one.

        Which offsets are readable is the machine's to say, and a kept one below a truncation is
        best asked for alone (`max_bytes` 0). When the first batch begins above an `offset` that is
        readable, this node has lost what is between: it must not answer with what comes after."""
        found: list[Located] = []
        total_bytes = 0
        end = -1
        for row in self._rows(queue, OFFSETS, offset):
            located = self._located(queue, row)
            total_bytes += located.position.length
            if found and (total_bytes > max_bytes or row.base != end):
                break
            found.append(located)
            end = row.end
        return found

    def staged_batches(self, queue: bytes, stage_number: int, max_bytes: int) -> list[BatchEntry]:
        """As `locate`, of staged batches; these may have gaps between them."""
        found: list[BatchEntry] = []
        total_bytes = 0
        for row in self._rows(queue, STAGES, stage_number):
            total_bytes += row.position.length
            if found and total_bytes > max_bytes:
                break
            found.append(
                BatchEntry(queue, row.base, row.messages, row.log_time_us, row.position, STAGED)
            )
        return found

    def offset_at(self, queue: bytes, time_us: int) -> int | None:
        """The first offset whose batch has a log time of at least `time_us`; None if there is none
        (yet): the answer is then the queue's end, which the machine knows."""
        found = self._queues.get(queue)
        if found is None:
            return None
        tail = found.tails[OFFSETS]
        at = tail.find_time(time_us, tail.find(found.first))
        return tail.bases[at] if at < len(tail) else None

    def offset_back(self, queue: bytes, end: int, max_bytes: int) -> int:
        """The lowest first offset of a batch such that all from it up to `end` fit in `max_bytes`;
        `end` if not even the last one does."""
        found = self._queues.get(queue)
        if found is None:
            return end
        tail = found.tails[OFFSETS]
        offset = end
        for index in range(tail.find(end - 1), -1, -1):
            if index >= len(tail) or tail.bases[index] >= end:
                continue
            max_bytes -= tail.lengths[index]
            if max_bytes < 0 or tail.bases[index] + tail.counts[index] <= found.first:
                break
            offset = tail.bases[index]
        return offset

    def log_time_of(self, queue: bytes, number: int, staged: bool) -> int:
        """Log time of the batch that holds an offset, or a stage number; 0 if unknown."""
        row = self._row(queue, STAGES if staged else OFFSETS, number)
        return row.log_time_us if row is not None else 0

    def stored_bytes(self, queue: bytes) -> int:
        """Of the batches of a queue that are not truncated, staged ones with them."""
        found = self._queues.get(queue)
        if found is None:
            return 0
        tail = found.tails[OFFSETS]
        appended = sum(
            tail.lengths[index]
            for index in range(tail.find(found.first), len(tail))
            if tail.bases[index] not in tail.odd
        )
        return appended + sum(found.tails[STAGES].lengths)

    # -- what goes -----------------------------------------------------------------------------

    def truncate(self, queue: bytes, first_offset: int, kept: Sequence[int] = ()) -> None:
        """Drop batches that lie wholly below `first_offset` and hold no offset of `kept`."""
        found = self._queues.get(queue)
        if found is None:
            return
        found.first, found.kept = first_offset, tuple(sorted(kept))
        tail = found.tails[OFFSETS]
        stop = tail.find(first_offset)
        holding = sorted({tail.find(offset) for offset in found.kept})
        for index in reversed([-1, *(one for one in holding if one < stop)]):
            tail.remove(index + 1, stop)
            stop = index

    def drop(self, queue: bytes) -> None:
        """Forget a deleted queue."""
        self._queues.pop(queue, None)

    def queues(self) -> list[bytes]:
        """Queue ids that have batches here, also ones the machine has deleted since."""
        return list(self._queues)

    def __len__(self) -> int:
        """Rows in memory."""
        return sum(len(tail) for queue in self._queues.values() for tail in queue.tails)

    # -- inside --------------------------------------------------------------------------------

    def _rows(self, queue: bytes, space: int, number: int) -> Iterator[Row]:
        found = self._queues.get(queue)
        if found is None:
            return iter(())
        tail = found.tails[space]
        return tail.rows(tail.find(number))

    def _row(self, queue: bytes, space: int, number: int) -> Row | None:
        row = next(self._rows(queue, space, number), None)
        return row if row is not None and row.base <= number else None

    def _located(self, queue: bytes, row: Row) -> Located:
        base, messages, time_us, position, flags, extra = row
        if flags != RELEASED:
            return Located(base, messages, time_us, position)
        run = unpack_run(extra)
        staged = self._row(queue, STAGES, run.stage_base)
        where = staged.position if staged is not None else position
        return Located(base, messages, time_us, where, run.stage_base, run.indices)


def pack_entries(entries: Iterable[BatchEntry]) -> bytes:
    """The layout of a checkpoint's tail, `PACKED_BYTES` an entry, little-endian:
    queue id 25 B · base offset u64 · messages u32 · log time u64 · segment u32 · offset u64 ·
    length u32."""
    pack = _PACKED.pack
    return b"".join(
        pack(queue, base, count, time_us, at.segment, at.offset, at.length)
        for queue, base, count, time_us, at, flags, _ in entries
        if flags == APPENDED
    )


def unpack_entries(raw: bytes | memoryview) -> Iterator[BatchEntry]:
    """Raises ValueError if the length does not fit."""
    if len(raw) % PACKED_BYTES:
        raise ValueError("not a whole number of entries")
    for queue, base, count, time_us, segment, offset, length in _PACKED.iter_unpack(raw):
        yield BatchEntry(queue, base, count, time_us, Position(segment, offset, length))
