"""The indexes at a start: from the sidecars' tables, the checkpoint's tail and the replayed frames.

No footer is read if a sidecar verifies, and rows of a sidecar are read only if it lists something
stale or damaged. Compacted segments come first, because their rows count before others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.damage import LostBatch, ReadablePositions, loses_index, lost_of
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.storage.pages import Pages
from store_nodes.storage.rows import row_of, space_of
from store_nodes.storage.sidecar import Tables
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import RELEASED, BatchEntry
from store_nodes.wal.log import WriteAheadLog


class IndexLoader:
    """Fills the indexes; call its methods in their order here."""

    def __init__(self, wal: WriteAheadLog, pages: Pages, batches: BatchIndex) -> None:
        self._wal = wal
        self._pages = pages
        self._batches = batches
        self.unindexed: list[int] = []
        self.groups: dict[int, list[tuple[int, int]]] = {}
        """The (group, last instance) of each group with records, by raw segment."""
        self._lost: list[LostBatch] = []

    def where(self) -> ReadablePositions:
        compacted = self._wal.compacted
        return ReadablePositions(
            compacted.first_segment, compacted.segments, self._wal.damages.all()
        )

    def segments(
        self, segments: Iterable[int], instances: Callable[[int], InstanceIndex | None]
    ) -> None:
        """Attach compacted and raw sealed segments, the compacted ones first.

        Segments that have no index any more are reported. If an earlier start or a reader found
        that, the tables of the sidecar may still verify, but some of its rows do not.
        """
        where = self.where()
        gone = {one.segment for one in self._wal.damages.all() if loses_index(one)}
        for segment in segments:
            if segment in gone:
                self.unindexed.append(segment)
                continue
            try:
                tables = self._pages.attach(segment)
                self._attach(tables, where)
            except WalDamaged as error:
                self._wal.damages.add(error.damage)
                self.unindexed.append(segment)
                continue
            self.groups[segment] = [(group, last) for group, _, last, _, _ in tables.groups]
            for group, first, last, start, rows in tables.groups:
                index = instances(group)
                if index is not None:
                    index.attach(self._pages, segment, first, last, start, rows)

    def _attach(self, tables: Tables, where: ReadablePositions) -> None:
        stretches, lost = where.sound(self._pages, tables)
        self._batches.attach_all(tables.run.segment, stretches)
        self._lost += [lost_of(*each) for each in lost]

    def entries(self, entries: Iterable[BatchEntry]) -> list[BatchEntry]:
        """Add the entries of a checkpoint's tail or of BATCH frames; return those that were not
        held.
        """
        where = self.where()
        added: list[BatchEntry] = []
        for entry in entries:
            if entry.flags != RELEASED:
                if where.is_stale(entry.position):
                    continue
                if where.is_lost(entry.position):
                    self._lost.append(lost_of(entry.queue, space_of(entry.flags), row_of(entry)))
                    continue
            if self._batches.add_entry(entry):
                added.append(entry)
        return added

    def lost(self, live: Callable[[LostBatch], bool]) -> list[LostBatch]:
        """Return the live batches of rows left out because their bytes are lost, if nothing since
        holds them.
        """
        missing = self._batches.missing
        return [
            one
            for one in dict.fromkeys(self._lost)
            if missing(one.queue, one.base, one.base + one.messages, staged=one.staged)
            and live(one)
        ]
