"""Finds each applied batch in this node's log; it is local, rebuilt at start, never replicated.

It is filled from the segments' footers, from the tail that a checkpoint kept, and from all batches
applied since. The same batch may come more than once (a restart applies again what the checkpoint
had not seen), and only the first counts: both copies are valid. But the rows of a compacted segment
count before all others, because the segments that it was copied from are removed.

Memory holds extents for the rows of sealed segments, and the other rows themselves (space.py). Rows
of sealed segments are read from sidecars through a cache (pages.py). The index belongs to the event
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from store_nodes.storage import extents
from store_nodes.storage.holdings import Holding, Holdings
from store_nodes.storage.rows import (
    OFFSETS,
    STAGES,
    Row,
    entry_of,
    pack_run,
    row_of,
    unpack_run,
)
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import RELEASED, STAGED, BatchEntry
from store_nodes.wal.position import Position

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


class Located(NamedTuple):
    """A stored batch as a reader gets it.

    `stage` and `indices` are None for a plain append. For a released run they say which messages of
    the staged batch at `position` have the offsets `base_offset` … `base_offset + messages - 1`:
    those at `indices` of the batch that begins at stage number `stage`.
    """

    base_offset: int
    messages: int
    log_time_us: int
    position: Position
    stage: int | None = None
    indices: tuple[int, ...] | None = None


def _of_readable(
    read: Callable[Concatenate[BatchIndex, bytes, _Args], _Result],
) -> Callable[Concatenate[BatchIndex, bytes, _Args], _Result]:
    """Repeat a read of a queue without the segments whose index it cannot read."""

    @wraps(read)
    def wrapper(
        self: BatchIndex, queue: bytes, /, *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result:
        """Read again without the damaged segments until the read meets no damage."""
        while True:
            try:
                return read(self, queue, *args, **kwargs)
            except WalDamaged as error:
                if self.on_damage is None:
                    raise
                if not self.forget_segments(queue, {error.damage.segment}):
                    raise
                self.on_damage(error.damage)

    return wrapper


class BatchIndex(Holdings):
    """The batches of all queues on this node."""

    # -- applied batches -----------------------------------------------------------------------

    def add(
        self, queue: bytes, base_offset: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """Add an appended batch; return False if those offsets are held already."""
        assert messages > 0
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = Holding()
        segment, offset, length = position
        return found.offsets.add_row(base_offset, messages, log_time_us, segment, offset, length)

    def add_staged(
        self, queue: bytes, base_stage: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """Add a staged batch; return False if those numbers are held already."""
        assert messages > 0
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = Holding()
        return found.space(STAGES).add_row(base_stage, messages, log_time_us, *position)

    def add_released(
        self,
        queue: bytes,
        base_offset: int,
        log_time_us: int,
        stage_base: int,
        indices: Sequence[int],
    ) -> bool:
        """Add messages of a staged batch that got offsets from `base_offset` on; False as in
        `add`.
        """
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
        """Return the footer's row of a released run, with the place of its staged batch."""
        staged = self.row(queue, STAGES, stage_base)
        position, share = Position(0, 0, 0), 0
        if staged is not None:
            position = staged.position
            share = position.length * len(indices) // staged.messages
        extra = pack_run(stage_base, indices, share)
        return BatchEntry(queue, base_offset, len(indices), log_time_us, position, RELEASED, extra)

    def add_entry(self, entry: BatchEntry) -> bool:
        """Add a footer's row of any kind; False as in `add`."""
        if entry.flags != RELEASED:
            add = self.add_staged if entry.flags == STAGED else self.add
            return add(*entry[:5])
        row = row_of(entry)
        if not self.add(entry.queue, row.base, row.messages, row.log_time_us, row.position):
            return False
        space = self._queues[entry.queue].offsets
        assert space.tail is not None
        space.tail.odd[row.base] = row.extra
        space.held_shares += row.position.length
        return True

    def extend(self, entries: Iterable[BatchEntry]) -> None:
        for entry in entries:
            self.add_entry(entry)

    # -- reads ---------------------------------------------------------------------------------

    @_of_readable
    def locate(self, queue: bytes, offset: int, max_bytes: int) -> list[Located]:
        """Return batches in order and without a gap, from the one with `offset` or the next one on.

        As many are returned as fit in `max_bytes`, but at least one if there is one. The machine
        knows which offsets are readable; ask for a kept one below a truncation alone (`max_bytes`
        0). When the first batch begins above an `offset` that is readable, this node has lost the
        offsets between: it must not answer with the later ones.
        """
        found: list[Located] = []
        total_bytes = 0
        end = -1
        for row in self._rows(queue, OFFSETS, offset):
            if found and row.base != end:
                break
            located = self._located(queue, row)
            if located is None:
                break
            total_bytes += located.position.length
            if found and total_bytes > max_bytes:
                break
            found.append(located)
            if total_bytes >= max_bytes:
                break
            end = row.end
        return found

    @_of_readable
    def staged_batches(self, queue: bytes, stage_number: int, max_bytes: int) -> list[BatchEntry]:
        """Return staged batches as `locate` does; these may have gaps between them."""
        found: list[BatchEntry] = []
        total_bytes = 0
        for row in self._rows(queue, STAGES, stage_number):
            total_bytes += row.position.length
            if found and total_bytes > max_bytes:
                break
            found.append(entry_of(queue, STAGES, row))
            if total_bytes >= max_bytes:
                break
        return found

    @_of_readable
    def offset_at(self, queue: bytes, time_us: int) -> int | None:
        """Return the first offset whose batch has a log time of at least `time_us`; None if there
        is none.

        The answer is then the queue's end, which the machine knows.
        """
        found = self._queues.get(queue)
        if found is None:
            return None
        space = found.offsets
        candidates: list[int] = []
        index = space.find_time(time_us, space.find(found.first))
        if index < len(space):
            assert self._pages is not None
            extent = space.extent(index)
            stop = extent.row_start + extent.rows
            start = self._pages.find(extent.segment, extent.row_start, stop, found.first)
            at = self._pages.find_time(extent.segment, start, stop, time_us)
            candidates += [row.base for row in self._pages.rows(extent.segment, at, at + 1)]
        tail = space.tail
        if tail is not None:
            at = tail.find_time(time_us, tail.find(found.first))
            if at < len(tail):
                candidates.append(tail.bases[at])
        return min(candidates, default=None)

    @_of_readable
    def offset_back(self, queue: bytes, end: int, max_bytes: int) -> int:
        """Return the lowest first offset of a batch such that all bytes from it up to `end` fit in
        `max_bytes`.

        It is `end` if not even the last batch fits. A released run counts as its share of the
        batch.
        """
        found = self._queues.get(queue)
        if found is None:
            return end
        return extents.offset_back(self._pages, found.offsets, found.first, end, max_bytes)

    def log_time_of(self, queue: bytes, number: int, staged: bool) -> int:
        """Return the log time of the batch that has an offset, or a stage number; 0 if unknown."""
        row = self.row(queue, STAGES if staged else OFFSETS, number)
        return row.log_time_us if row is not None else 0

    def stored_bytes(self, queue: bytes) -> int:
        """Return the bytes of a queue's kept batches, staged ones included, each counted once."""
        found = self._queues.get(queue)
        if found is None:
            return 0
        staged = found.stages.held_bytes if found.stages is not None else 0
        return found.offsets.held_bytes - found.offsets.held_shares + staged

    def missing(
        self, queue: bytes, first: int, end: int, *, staged: bool = False
    ) -> list[tuple[int, int]]:
        """Return the parts of the offsets, or stage numbers, [first, end) that no batch here
        has.
        """
        found = self._queues.get(queue)
        if found is None:
            return [(first, end)] if first < end else []
        return found.space(STAGES if staged else OFFSETS).gaps(first, end)

    # -- inside --------------------------------------------------------------------------------

    def _rows(self, queue: bytes, which: int, number: int) -> Iterator[Row]:
        """Yield the rows of a space, from the first one that ends above `number` on."""
        found = self._queues.get(queue)
        if found is None or (which == STAGES and found.stages is None):
            return
        space = found.space(which)
        index, tail = space.find(number), space.tail
        at = tail.find(number) if tail is not None else 0
        while index < len(space):
            extent = space.extent(index)
            while tail is not None and at < len(tail) and tail.bases[at] < extent.first:
                yield tail.row(at)
                at += 1
            assert self._pages is not None
            stop = extent.row_start + extent.rows
            start = extent.row_start
            if number > extent.first:
                start = self._pages.find(extent.segment, start, stop, number)
            yield from self._pages.rows(extent.segment, start, stop)
            index += 1
        if tail is not None:
            yield from tail.rows(at)

    @_of_readable
    def row(self, queue: bytes, which: int, number: int) -> Row | None:
        """Return the row of a space that has a number, or None."""
        return self._row(queue, which, number)

    def _row(self, queue: bytes, which: int, number: int) -> Row | None:
        row = next(self._rows(queue, which, number), None)
        return row if row is not None and row.base <= number else None

    def _located(self, queue: bytes, row: Row) -> Located | None:
        """Return the batch of a row; None for a released run whose staged batch is not held."""
        base, messages, time_us, position, extra = row
        if not extra:
            return Located(base, messages, time_us, position)
        run = unpack_run(extra)
        staged = self._row(queue, STAGES, run.stage_base)
        if staged is None:
            return None
        return Located(base, messages, time_us, staged.position, run.stage_base, run.indices)
