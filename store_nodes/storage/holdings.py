"""Keeps the index rows of each queue, as segments are sealed, compacted and truncated.

`BatchIndex` answers reads from them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence

from store_nodes.storage import extents
from store_nodes.storage.pages import Pages
from store_nodes.storage.rows import OFFSETS, STAGES, Row
from store_nodes.storage.sidecar import Stretch, extent_of
from store_nodes.storage.space import Extent, Space
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.recovery import Damage


class Holding:
    """The rows of one queue: offsets from `first` on and those of `kept` are wanted."""

    __slots__ = ("first", "kept", "offsets", "stages")

    def __init__(self) -> None:
        self.offsets = Space()
        self.stages: Space | None = None
        self.first = 0
        self.kept: tuple[int, ...] = ()

    def space(self, which: int) -> Space:
        """Return the space of offsets or of stage numbers."""
        if which == OFFSETS:
            return self.offsets
        if self.stages is None:
            self.stages = Space()
        return self.stages

    def live_numbers(self, extent: Extent) -> int:
        """Return the number of offsets of an extent that are not truncated."""
        below = min(extent.end, self.first)
        kept = bisect_left(self.kept, below) - bisect_left(self.kept, extent.first)
        return max(0, kept) + max(0, extent.end - max(extent.first, self.first))


class Holdings:
    """The rows of all queues of a node.

    Rows of a segment whose index cannot be read any more are dropped, and `on_damage` is told:
    their numbers are missing from then on. Without `on_damage`, WalDamaged is raised.
    """

    def __init__(
        self, pages: Pages | None = None, on_damage: Callable[[Damage], None] | None = None
    ) -> None:
        self.on_damage = on_damage
        self._pages = pages
        self._queues: dict[bytes, Holding] = {}
        self.held: dict[int, int] = {}
        """Bytes of the batches that are not truncated, by attached segment.

        They are an estimate for raw segments, and after truncations.
        """

    # -- removals ------------------------------------------------------------------------------

    def truncate(self, queue: bytes, first_offset: int, kept: Sequence[int] = ()) -> None:
        """Drop batches that are wholly below `first_offset` and have no offset of `kept`."""
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
        """Return the queue ids that have batches here, also those that the machine has deleted
        since.
        """
        return list(self._queues)

    def has(self, queue: bytes) -> bool:
        """Return whether a queue has batches here."""
        return queue in self._queues

    def __len__(self) -> int:
        """Return the number of rows in memory."""
        return sum(
            len(space.tail)
            for queue in self._queues.values()
            for space in (queue.offsets, queue.stages)
            if space is not None and space.tail is not None
        )

    # -- attached segments ---------------------------------------------------------------------

    def attach_all(self, segment: int, stretches: Iterable[Stretch]) -> None:
        """Attach every stretch of a segment, as `attach` does. A start spends its time here."""
        queues = self._queues
        held = 0
        for stretch in stretches:
            queue, which, _, start, rows, first, end, size, shares, last_us = stretch
            found = queues.get(queue)
            if found is None:
                found = queues[queue] = Holding()
            space = found.offsets if which == OFFSETS else found.space(STAGES)
            if first >= space.end:
                space.append_extent(first, end, segment, start, rows, size, shares, last_us)
                held += size - shares
            else:
                self.attach(*extent_of(segment, stretch))
        self.held[segment] = self.held.get(segment, 0) + held

    def attach(self, queue: bytes, which: int, extent: Extent, *, compacted: bool = False) -> None:
        """Add a stretch that an attached segment lists.

        Numbers held already stay as they are, except in the tail; the stretch of a compacted
        segment replaces all others.
        """
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = Holding()
        space = found.space(which)
        start, old = space.overlapping(extent.first, extent.end)
        if compacted:
            pieces = sorted([*self._without(old, extent), extent])
        else:
            pieces = sorted([*old, *self._outside(extent, old)])
        self._splice(space, start, start + len(old), pieces)
        tail = space.tail
        if tail is not None:
            space.remove_tail(tail.find(extent.first), tail.find(extent.end))

    def exclude(self, queue: bytes, which: int, first: int, end: int) -> None:
        """Hold the numbers [first, end) no more, because their bytes are gone or damaged."""
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

    def forget_segments(self, queue: bytes, segments: Collection[int]) -> bool:
        """Drop every stretch of a queue that these segments list; return whether there was one."""
        found = self._queues.get(queue)
        dropped = False
        for space in (found.offsets, found.stages) if found is not None else ():
            if space is None:
                continue
            extents = space.extents()
            left = [extent for extent in extents if extent.segment not in segments]
            if len(left) < len(extents):
                self._splice(space, 0, len(extents), left)
                dropped = True
        return dropped

    def listed_by(self, queue: bytes, segments: Collection[int]) -> list[tuple[int, Extent]]:
        """Return the (space, extent) of every stretch of a queue that one of these segments
        lists.
        """
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
        """Return the (space, row) of the rows in memory whose position is in one of these segments.

        None stands for all segments.
        """
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
        return [piece for extent in extents for piece in self._outside(extent, [hole])]

    def _outside(self, extent: Extent, others: list[Extent]) -> list[Extent]:
        """Return the rest of an extent without `others`; nothing if its index cannot be read."""
        try:
            return extents.outside(self._pages, extent, others)
        except WalDamaged as error:
            if self.on_damage is None:
                raise
            self.on_damage(error.damage)
            return []

    def _splice(self, space: Space, start: int, stop: int, extents: list[Extent]) -> None:
        for index in range(start, stop):
            gone = space.extent(index)
            self.held[gone.segment] -= gone.bytes - gone.shares
        for extent in extents:
            size = extent.bytes - extent.shares
            self.held[extent.segment] = self.held.get(extent.segment, 0) + size
        space.splice(start, stop, extents)
