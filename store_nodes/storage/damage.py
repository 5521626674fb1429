"""The stored bytes that are lost, and whether the node may take part without them.

*Votes*: bytes from the checkpoint's start on, or the checkpoints themselves, are damaged. Promises
and accepts may be lost, and the node must not vote as if it had them. *Data only*: all damage is
below the start of the checkpoint or in compacted segments. Promises and state are whole, and only
stored batches are missing, which any peer has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from store_nodes.storage.pages import Pages
from store_nodes.storage.rows import STAGES, Row
from store_nodes.storage.sidecar import Run, Stretch, Tables, extent_of, stretch_of
from store_nodes.storage.space import Extent
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from store_nodes.wal.segment import FIRST_COMPACTED

_WHOLE = ("missing", "segment header")
"""Reasons for which nothing of a segment can be trusted."""
_INDEX = ("footer", "index")
"""Reasons for which `Pages` cannot read a segment's index any more."""
_END = 1 << 32


class LostBatch(NamedTuple):
    """Stage numbers or offsets `base` … `base + messages - 1` of a queue."""

    queue: bytes
    staged: bool
    base: int
    messages: int
    log_time_us: int = 0
    position: Position = Position(0, 0, 0)
    """The place of its bytes, which do not verify."""


def lost_of(queue: bytes, space: int, row: Row) -> LostBatch:
    return LostBatch(queue, space == STAGES, row.base, row.messages, row.log_time_us, row.position)


@dataclass(slots=True)
class DamageReport:
    """The damage that a start found and that is not repaired yet."""

    votes: bool
    """Whether promises or accepted values may be lost; see the module."""
    texts: tuple[str, ...]
    unindexed: tuple[int, ...] = ()
    """Segments whose index is gone: batches in no other index show as gaps
    (`BatchIndex.missing`).
    """
    lost: list[LostBatch] = field(default_factory=list)

    def lost_batches(self) -> list[LostBatch]:
        """Return batches whose bytes do not verify, that are not truncated, and that nothing else
        here holds.

        The index does not hold them, so that copies from peers can be added.
        """
        return self.lost

    def __str__(self) -> str:
        return "; ".join(self.texts)


def costs_votes(damage: Damage, start: Position | None) -> bool:
    """Return whether damage may have cost votes; `start` is that of the checkpoint, None without
    one.
    """
    if damage.segment >= FIRST_COMPACTED:
        return False
    if start is None or damage.segment > start.segment or damage.segment == 0:
        return True
    if damage.segment < start.segment:
        return False
    return damage.reason in _WHOLE or damage.end > start.offset


def loses_index(damage: Damage) -> bool:
    """Return whether the index of the damaged segment is gone: sidecar and footer do not verify."""
    return damage.offset == damage.end == 0 and damage.reason in _INDEX


class ReadablePositions:
    """The positions that can be read back."""

    def __init__(
        self, first_segment: int, compacted: Collection[int], damages: Iterable[Damage]
    ) -> None:
        self._first = first_segment
        self._compacted = frozenset(compacted)
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for damage in damages:
            span = (0, _END) if damage.reason.startswith(_WHOLE) else (damage.offset, damage.end)
            if span[0] < span[1]:
                self._ranges.setdefault(damage.segment, []).append(span)

    def is_stale(self, position: Position) -> bool:
        """Return whether a position is in a segment compacted since, whose live batches were
        copied.
        """
        if position.segment >= FIRST_COMPACTED:
            return position.segment not in self._compacted
        return position.segment < self._first

    def is_lost(self, position: Position) -> bool:
        """Return whether the bytes at a position are damaged or gone."""
        end = position.offset + position.length
        return any(
            start < end and position.offset < stop
            for start, stop in self._ranges.get(position.segment, ())
        )

    def doubts(self, run: Run) -> bool:
        """Return whether a row of this run may be stale or lost."""
        if run.lowest_segment < self._first:
            return True
        return any(run.lowest_segment <= segment <= run.segment for segment in self._ranges)

    def sound(
        self, pages: Pages, tables: Tables
    ) -> tuple[list[Stretch], list[tuple[bytes, int, Row]]]:
        """Return the stretches without the rows that are stale or lost, and the lost rows.

        Rows are read only for a run that is in doubt.
        """
        if not self.doubts(tables.run):
            return tables.stretches, []
        whole: list[Stretch] = []
        lost: list[tuple[bytes, int, Row]] = []
        for stretch in tables.stretches:
            queue, space, extent = extent_of(tables.run.segment, stretch)
            for piece, row in self._split(pages, extent):
                if piece is not None:
                    whole.append(stretch_of(queue, space, piece))
                if row is not None and self.is_lost(row.position):
                    lost.append((queue, space, row))
        return whole, lost

    def _split(self, pages: Pages, extent: Extent) -> Iterator[tuple[Extent | None, Row | None]]:
        """Yield the pieces of an extent between the rows that are stale or lost, and these rows."""
        sound: list[Row] = []
        at = extent.row_start
        rows = pages.rows(extent.segment, at, at + extent.rows, keep=False)
        for index, row in enumerate(rows):
            if row.extra or not (self.is_stale(row.position) or self.is_lost(row.position)):
                sound.append(row)
                continue
            yield _piece(extent, at, sound), row
            sound, at = [], extent.row_start + index + 1
        yield _piece(extent, at, sound), None


def _piece(extent: Extent, row_start: int, rows: list[Row]) -> Extent | None:
    if not rows:
        return None
    size = sum(row.position.length for row in rows)
    shares = sum(row.position.length for row in rows if row.extra)
    first, end, last_us = rows[0].base, rows[-1].end, rows[-1].log_time_us
    return Extent(first, end, extent.segment, row_start, len(rows), size, shares, last_us)
