"""The table of an export, as it was at one moment, read by lanes and offsets.

A snapshot's properties say how far each lane is in it (`packetboat.positions`), and were set in the
commit that added the rows: below a position every message of the lane is in the table or in the
table of rejects, from where the export began. That is checked all the same: what is answered has no
gap and no offset twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import StaticTable, Table

from packetboat.lake.files import File, files_of, rows_of
from packetboat.lake.finding import States
from packetboat.lake.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from packetboat.lake.read_message import ReadMessage
    from packetboat.models.exports import Export

T = TypeVar("T")
POSITIONS = "packetboat.positions"
FIRST_WINDOW_OFFSETS = 10_000
MAX_WINDOW_OFFSETS = 200_000
WINDOW_BYTES = 32 * 1024 * 1024
"""The limit of bytes of one window in Arrow; as messages the rows take more."""


class HistoryTable:
    """The messages of a topic in an export's tables. Each method blocks."""

    def __init__(self, export: Export, topic: str, storage: dict[str, str]) -> None:
        assert export.table_state is not None
        self.states: States = (export.table_state, export.rejects_state)
        self._topic = topic
        self._uid = _uid_of(export, topic)
        self._storage = storage
        self._window = FIRST_WINDOW_OFFSETS

    def rows(self, partition: int, lane: int, start: int, end: int) -> list[ReadMessage]:
        """Return messages from `start` on, without a gap, up to `end` − 1 or fewer.

        Return none if the table lacks the message at `start`.
        """
        end = min(end, self.position(partition, lane), start + self._window)
        if start >= end:
            return []
        where = self._rows(partition, lane, start, end)
        found: dict[int, tuple[Rows, dict[str, Any]]] = {}
        for table, files in self._tables:
            of_table = Rows(table.schema())
            chosen = [file for file in files if file.may_have(partition, lane, start, end, None)]
            for row in self._sized(_scanned(table, chosen, where)).to_pylist():
                other = found.get(row["offset"])
                # A namesake of the topic, deleted since, may have had the offset, too.
                if other is None or other[1]["publish_time"] < row["publish_time"]:
                    found[row["offset"]] = of_table, row
        return [rows.message(row) for rows, row in _without_a_gap(found, start)]

    def first(
        self, partition: int, lane: int, *, start: int = 0, since: datetime | None = None
    ) -> int | None:
        """Return the first offset from `start` on of a message published at `since` or later."""
        end = self.position(partition, lane)
        where = self._rows(partition, lane, start, end)
        if since is not None:
            where += f" AND publish_time >= '{since.isoformat()}'"
        best: int | None = None
        for table, files in self._tables:
            for file in files:
                if best is not None and file.begins >= best:
                    break
                if file.may_have(partition, lane, start, end, since):
                    offsets = _scanned(table, [file], where, "offset")["offset"].to_pylist()
                    best = min([*offsets, *([] if best is None else [best])], default=None)
        return best

    def position(self, partition: int, lane: int) -> int:
        """Return the offset of a lane below which each message is in the tables, or is
        older than the export.
        """
        return self._positions.get((partition, lane), 0)

    @cached_property
    def _tables(self) -> list[tuple[Table, list[File]]]:
        """The table of the messages, and that of rejects if there is one, with their files."""
        return [(table, files_of(table, self._topic)) for table in self._opened]

    @cached_property
    def _opened(self) -> list[Table]:
        return [
            StaticTable.from_metadata(state.metadata_location, self._storage)
            for state in self.states
            if state is not None and state.metadata_location is not None
        ]

    @cached_property
    def _positions(self) -> dict[tuple[int, int], int]:
        listed = json.loads(self._opened[0].properties.get(POSITIONS, "[]"))
        mine = [each for each in listed if each[0] == self._topic]
        uids = {uid for _, uid, *_ in mine}
        uid = next(iter(uids)) if self._uid is None and len(uids) == 1 else self._uid
        return {(partition, lane): offset for _, of, partition, lane, offset in mine if of == uid}

    def _rows(self, partition: int, lane: int, start: int, end: int) -> str:
        place = (f"partition = {partition}", f"lane = {lane}")
        return rows_of(self._topic, *place, f"offset >= {start}", f"offset < {end}")

    def _sized(self, read: pa.Table) -> pa.Table:
        """The next window is as large as rows like these allow."""
        if read.num_rows:
            rows = WINDOW_BYTES * read.num_rows // max(read.nbytes, 1)
            self._window = min(max(rows, 1), MAX_WINDOW_OFFSETS, self._window * 2)
        return read


def _scanned(table: Table, files: list[File], where: str, *columns: str) -> pa.Table:
    projected = table.scan(selected_fields=columns or ("*",)).projection()
    scan = ArrowScan(table.metadata, table.io, projected, parse(where))
    return scan.to_table([file.task for file in files])


def _without_a_gap(found: dict[int, T], start: int) -> Iterator[T]:
    while (row := found.get(start)) is not None:
        yield row
        start += 1


def _uid_of(export: Export, topic: str) -> str | None:
    """Return the uid of the topic as it is now; None where the server cannot tell."""
    return next((each.topic_uid for each in export.positions or () if each.topic == topic), None)
