"""The table of an export, as it was at one moment, read by lanes and offsets.

A snapshot's properties say how far each lane is in it (`packetboat.positions`), and were set in the
commit that added the rows: below a position every message of the lane is in the table or in the
table of rejects, from where the export began. That is checked all the same: what is answered has no
gap and no offset twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, StaticTable, Table
from pyiceberg.types import IcebergType, ListType, NestedField, PrimitiveType, StructType
from pyiceberg.utils.datetime import datetime_to_micros

from packetboat.lake.finding import States
from packetboat.lake.read_message import ReadMessage

if TYPE_CHECKING:
    import pyarrow as pa

    from packetboat.models.exports import Export

T = TypeVar("T")
POSITIONS = "packetboat.positions"
FIRST_WINDOW_OFFSETS = 10_000
MAX_WINDOW_OFFSETS = 200_000
WINDOW_BYTES = 32 * 1024 * 1024
"""The limit of bytes of one window in Arrow; as messages the rows take more."""
ENVELOPE = (
    *("topic", "message_id", "partition", "lane", "offset", "publish_time", "key", "attributes"),
    *("content_type", "publisher_id", "priority", "traceparent", "data"),
)
_NOT_OF_BODIES = frozenset({*ENVELOPE, "rescued", "reason"})


class Rows:
    """Rows of an export's tables with one schema, as messages.

    The columns of the envelope come first; those behind it are the members of the body, except
    `rescued`, the whole body of a message with a value that does not fit its column, and `reason`,
    which the table of rejects has. A column whose name is not the member's has the member's in its
    doc.
    """

    def __init__(self, schema: Schema) -> None:
        self._members = tuple(
            _Member(field) for field in schema.fields if field.name not in _NOT_OF_BODIES
        )

    def message(self, row: Mapping[str, Any]) -> ReadMessage:
        """Return the message of a row as Arrow gives it: its map is a list of pairs."""
        data = row["data"]
        if data is None and row.get("rescued") is not None:
            data = row["rescued"].encode("utf-8")
        return ReadMessage(
            topic=row["topic"],
            partition=row["partition"],
            lane=row["lane"],
            offset=row["offset"],
            message_id=row["message_id"],
            publish_time=row["publish_time"],
            key=row["key"],
            attributes=dict(row["attributes"] or ()),
            content_type=row["content_type"],
            publisher_id=row["publisher_id"],
            priority=row["priority"],
            source="lake",
            data=data,
            columns=_object(self._members, row) if data is None else None,
        )


class _Member:
    """A member of an object: its column, and the conversion of its value."""

    def __init__(self, field: NestedField) -> None:
        self.name = field.doc or field.name
        self.column = field.name
        self._value = _Value(field.field_type)

    def value(self, value: Any) -> Any:
        return self._value.of(value)


class _Value:
    def __init__(self, kind: IcebergType) -> None:
        self._members: tuple[_Member, ...] | None = None
        self._element: _Value | None = None
        if isinstance(kind, StructType):
            self._members = tuple(map(_Member, kind.fields))
        elif isinstance(kind, ListType):
            self._element = _Value(kind.element_type)

    def of(self, value: Any) -> Any:
        if value is None:
            return None
        if self._members is not None:
            return _object(self._members, value)
        return value if self._element is None else [self._element.of(each) for each in value]


def _object(members: tuple[_Member, ...], row: Mapping[str, Any]) -> dict[str, Any]:
    """A table does not tell a member that is null from one that is not there."""
    found = ((member.name, member.value(row[member.column])) for member in members)
    return {name: value for name, value in found if value is not None}


class Span(NamedTuple):
    """The least and the greatest value of a column of a file; None: not known."""

    low: int | None
    high: int | None

    def meets(self, low: int | None, high: int | None) -> bool:
        """Return whether a value between these, both included, may be in the file."""
        below = high is not None and self.low is not None and high < self.low
        above = low is not None and self.high is not None and low > self.high
        return not below and not above


class File(NamedTuple):
    """A data file, and the spans of the columns that rows are looked for by."""

    task: FileScanTask
    partition: Span
    lane: Span
    offset: Span
    publish_time: Span

    @property
    def begins(self) -> int:
        """No offset in it is less."""
        return self.offset.low or 0

    def may_have(
        self, partition: int, lane: int, start: int, end: int | None, since: datetime | None
    ) -> bool:
        """Return whether the file may have rows of a lane with offsets from `start` to
        `end` − 1, published at `since` or later.
        """
        last = None if end is None else end - 1
        since_us = None if since is None else datetime_to_micros(since)
        return (
            self.partition.meets(partition, partition)
            and self.lane.meets(lane, lane)
            and self.offset.meets(start, last)
            and self.publish_time.meets(since_us, None)
        )


def rows_of(topic: str, *conditions: str) -> str:
    """Return a row filter of PyIceberg. Names of topics have no quotes."""
    assert "'" not in topic
    return " AND ".join((f"topic = '{topic}'", *conditions))


def files_of(table: Table, topic: str) -> list[File]:
    """Return the files that may have rows of a topic, by their first offsets."""
    scan = table.scan(row_filter=rows_of(topic))
    return sorted((_file(table, task) for task in scan.plan_files()), key=lambda file: file.begins)


def _file(table: Table, task: FileScanTask) -> File:
    columns = ("partition", "lane", "offset", "publish_time")
    return File(task, *(_span(table, task.file, column) for column in columns))


def _span(table: Table, file: Any, column: str) -> Span:
    field = table.schema().find_field(column)
    assert isinstance(field.field_type, PrimitiveType)
    bounds = (file.lower_bounds or {}, file.upper_bounds or {})
    values: list[Any] = [
        from_bytes(field.field_type, each[field.field_id]) if field.field_id in each else None
        for each in bounds
    ]
    return Span(*values)


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
