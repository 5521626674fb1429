"""Where each applied batch lies in this node's log: local, rebuilt at start, never replicated.

It is filled from the segments' footers, from the tail a checkpoint kept, and from everything
applied since. The same batch may come more than once (a restart applies again what the checkpoint
had not seen) and only the first counts: both copies are valid. But what a settled segment lists
counts before all else, because the segments it was copied from go away.

Memory holds extents for what sealed segments list and rows for the rest (space.py); rows of sealed
segments are read from sidecars through a cache (pages.py). Belongs to the event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from store_nodes.storage import stretches
from store_nodes.storage.pages import Pages
from store_nodes.storage.rows import (
    OFFSETS,
    STAGES,
    Row,
    entry_of,
    pack_run,
    row_of,
    unpack_run,
)
from store_nodes.storage.sidecar import Stretch, extent_of
from store_nodes.storage.space import Extent, Space
from store_nodes.wal.footer import RELEASED, STAGED, BatchEntry
from store_nodes.wal.position import Position


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
    __slots__ = ("first", "kept", "offsets", "stages")

    def __init__(self) -> None:
        self.offsets = Space()
        self.stages: Space | None = None
        self.first = 0
        self.kept: tuple[int, ...] = ()

    def space(self, which: int) -> Space:
        if which == OFFSETS:
            return self.offsets
        if self.stages is None:
            self.stages = Space()
        return self.stages

    def live_numbers(self, extent: Extent) -> int:
        """How many offsets of an extent are not truncated."""
        below = min(extent.end, self.first)
        kept = bisect_left(self.kept, below) - bisect_left(self.kept, extent.first)
        return max(0, kept) + max(0, extent.end - max(extent.first, self.first))


class BatchIndex:
    """Batches of all queues on this node. Reads raise WalDamaged when an index file is beyond
    making anew."""

    def __init__(self, pages: Pages | None = None) -> None:
        self._pages = pages
        self._queues: dict[bytes, _Queue] = {}
        self.held: dict[int, int] = {}
        """Per attached segment, bytes of the batches it lists that are not truncated: for raw
        segments and after truncations an estimate."""

    # -- what is applied -----------------------------------------------------------------------

    def add(
        self, queue: bytes, base_offset: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """An appended batch. False if those offsets are held already: nothing was added."""
        assert messages > 0
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = _Queue()
        segment, offset, length = position
        return found.offsets.add_row(base_offset, messages, log_time_us, segment, offset, length)

    def add_staged(
        self, queue: bytes, base_stage: int, messages: int, log_time_us: int, position: Position
    ) -> bool:
        """A staged batch; False as in `add`."""
        assert messages > 0
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = _Queue()
        return found.space(STAGES).add_row(base_stage, messages, log_time_us, *position)

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
        staged = self.row(queue, STAGES, stage_base)
        position, share = Position(0, 0, 0), 0
        if staged is not None:
            position = staged.position
            share = position.length * len(indices) // staged.messages
        extra = pack_run(stage_base, indices, share)
        return BatchEntry(queue, base_offset, len(indices), log_time_us, position, RELEASED, extra)

    def add_entry(self, entry: BatchEntry) -> bool:
        """A footer's row of any kind; False as in `add`."""
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

    def staged_batches(self, queue: bytes, stage_number: int, max_bytes: int) -> list[BatchEntry]:
        """As `locate`, of staged batches; these may have gaps between them."""
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

    def offset_at(self, queue: bytes, time_us: int) -> int | None:
        """The first offset whose batch has a log time of at least `time_us`; None if there is none
        (yet): the answer is then the queue's end, which the machine knows."""
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

    def offset_back(self, queue: bytes, end: int, max_bytes: int) -> int:
        """The lowest first offset of a batch such that all from it up to `end` fit in `max_bytes`;
        `end` if not even the last one does. A released run counts as its share of the batch."""
        found = self._queues.get(queue)
        if found is None:
            return end
        return stretches.offset_back(self._pages, found.offsets, found.first, end, max_bytes)

    def log_time_of(self, queue: bytes, number: int, staged: bool) -> int:
        """Log time of the batch that holds an offset, or a stage number; 0 if unknown."""
        row = self.row(queue, STAGES if staged else OFFSETS, number)
        return row.log_time_us if row is not None else 0

    def stored_bytes(self, queue: bytes) -> int:
        """Of the batches of a queue that are not truncated, staged ones with them, each once."""
        found = self._queues.get(queue)
        if found is None:
            return 0
        staged = found.stages.held_bytes if found.stages is not None else 0
        return found.offsets.held_bytes - found.offsets.held_shares + staged

    def missing(
        self, queue: bytes, first: int, end: int, *, staged: bool = False
    ) -> list[tuple[int, int]]:
        """The parts of the offsets, or stage numbers, [first, end) that no batch here holds."""
        found = self._queues.get(queue)
        if found is None:
            return [(first, end)] if first < end else []
        return found.space(STAGES if staged else OFFSETS).gaps(first, end)

    # -- what goes -----------------------------------------------------------------------------

    def truncate(self, queue: bytes, first_offset: int, kept: Sequence[int] = ()) -> None:
        """Drop batches that lie wholly below `first_offset` and hold no offset of `kept`."""
        found = self._queues.get(queue)
        if found is None:
            return
        space = found.offsets
        upto = space.find(first_offset)
        if upto < len(space) and space.extent(upto).first < first_offset:
            upto += 1
        touched = [space.extent(index) for index in range(upto)]
        before = [found.live_numbers(extent) for extent in touched]
        found.first, found.kept = first_offset, tuple(sorted(kept))
        left: list[Extent] = []
        for extent, numbers in zip(touched, before, strict=True):
            now = found.live_numbers(extent)
            if now:
                share = now / max(now, numbers)
                size, shares = int(extent.bytes * share), int(extent.shares * share)
                left.append(extent._replace(bytes=size, shares=shares))
        if left != touched:
            self._splice(space, 0, upto, left)
        tail = space.tail
        if tail is not None:
            stop = tail.find(first_offset)
            holding = sorted(
                {
                    at
                    for offset in found.kept
                    if (at := tail.find(offset)) < stop and tail.bases[at] <= offset
                }
            )
            for index in reversed([-1, *holding]):
                space.remove_tail(index + 1, stop)
                stop = index

    def drop(self, queue: bytes) -> None:
        """Forget a deleted queue."""
        found = self._queues.pop(queue, None)
        if found is not None:
            for space in (found.offsets, found.stages):
                if space is not None:
                    self._splice(space, 0, len(space), [])

    def queues(self) -> list[bytes]:
        """Queue ids that have batches here, also ones the machine has deleted since."""
        return list(self._queues)

    def has(self, queue: bytes) -> bool:
        """Whether it has batches here."""
        return queue in self._queues

    def __len__(self) -> int:
        """Rows in memory."""
        return sum(
            len(space.tail)
            for queue in self._queues.values()
            for space in (queue.offsets, queue.stages)
            if space is not None and space.tail is not None
        )

    # -- attached segments ---------------------------------------------------------------------

    def attach_all(self, segment: int, stretches: Iterable[Stretch]) -> None:
        """Every stretch of a segment, as `attach` does. A start spends its time here."""
        queues = self._queues
        held = 0
        for stretch in stretches:
            queue, which, _, start, rows, first, end, size, shares, last_us = stretch
            found = queues.get(queue)
            if found is None:
                found = queues[queue] = _Queue()
            space = found.offsets if which == OFFSETS else found.space(STAGES)
            if first >= space.end:
                space.append_extent(first, end, segment, start, rows, size, shares, last_us)
                held += size - shares
            else:
                self.attach(*extent_of(segment, stretch))
        self.held[segment] = self.held.get(segment, 0) + held

    def attach(self, queue: bytes, which: int, extent: Extent, *, settled: bool = False) -> None:
        """A stretch that an attached segment lists. What is held already stays as it is, but in
        the tail; a settled segment's stretch takes the place of all others."""
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = _Queue()
        space = found.space(which)
        start, old = space.overlapping(extent.first, extent.end)
        if settled:
            pieces = sorted([*self._without(old, extent), extent])
        else:
            pieces = sorted([*old, *stretches.outside(self._pages, extent, old)])
        self._splice(space, start, start + len(old), pieces)
        tail = space.tail
        if tail is not None:
            space.remove_tail(tail.find(extent.first), tail.find(extent.end))

    def exclude(self, queue: bytes, which: int, first: int, end: int) -> None:
        """Hold the numbers [first, end) no more: their bytes are gone or damaged."""
        found = self._queues.get(queue)
        if found is None:
            return
        space = found.space(which)
        start, old = space.overlapping(first, end)
        left = self._without(old, Extent(first, end, 0, 0, 0, 0, 0, 0))
        self._splice(space, start, start + len(old), left)
        tail = space.tail
        if tail is not None:
            space.remove_tail(tail.find(first), tail.find(end))

    def forget_segments(self, queue: bytes, segments: Collection[int]) -> None:
        """Let go of every stretch of a queue that these segments list."""
        found = self._queues.get(queue)
        for space in (found.offsets, found.stages) if found is not None else ():
            if space is None:
                continue
            extents = space.extents()
            left = [extent for extent in extents if extent.segment not in segments]
            if len(left) < len(extents):
                self._splice(space, 0, len(extents), left)

    def listed_by(self, queue: bytes, segments: Collection[int]) -> list[tuple[int, Extent]]:
        """(space, extent) of every stretch of a queue that one of these segments lists."""
        found = self._queues.get(queue)
        if found is None:
            return []
        spaces = [(OFFSETS, found.offsets)]
        if found.stages is not None:
            spaces.append((STAGES, found.stages))
        return [
            (which, extent)
            for which, space in spaces
            for extent in space.extents()
            if extent.segment in segments
        ]

    def tail_rows(self, queue: bytes, segments: frozenset[int] | None) -> list[tuple[int, Row]]:
        """(space, row) of the rows in memory whose position is in one of these segments; of all
        for None."""
        found = self._queues.get(queue)
        rows: list[tuple[int, Row]] = []
        for which in (OFFSETS, STAGES) if found is not None else ():
            space = found.stages if which == STAGES else found.offsets  # type: ignore[union-attr]
            tail = space.tail if space is not None else None
            if tail is not None and (segments is None or not segments.isdisjoint(tail.segments)):
                rows += [
                    (which, tail.row(index))
                    for index, segment in enumerate(tail.segments)
                    if segments is None or segment in segments
                ]
        return rows

    # -- inside --------------------------------------------------------------------------------

    def _without(self, extents: list[Extent], hole: Extent) -> list[Extent]:
        return [
            piece for extent in extents for piece in stretches.outside(self._pages, extent, [hole])
        ]

    def _splice(self, space: Space, start: int, stop: int, extents: list[Extent]) -> None:
        for index in range(start, stop):
            gone = space.extent(index)
            self.held[gone.segment] -= gone.bytes - gone.shares
        for extent in extents:
            size = extent.bytes - extent.shares
            self.held[extent.segment] = self.held.get(extent.segment, 0) + size
        space.splice(start, stop, extents)

    def _rows(self, queue: bytes, which: int, number: int) -> Iterator[Row]:
        """Rows of a space from the first one that ends above `number` on."""
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

    def row(self, queue: bytes, which: int, number: int) -> Row | None:
        """The row of a space that holds a number."""
        row = next(self._rows(queue, which, number), None)
        return row if row is not None and row.base <= number else None

    def _located(self, queue: bytes, row: Row) -> Located | None:
        """None for a released run whose staged batch is not held."""
        base, messages, time_us, position, extra = row
        if not extra:
            return Located(base, messages, time_us, position)
        run = unpack_run(extra)
        staged = self.row(queue, STAGES, run.stage_base)
        if staged is None:
            return None
        return Located(base, messages, time_us, staged.position, run.stage_base, run.indices)
