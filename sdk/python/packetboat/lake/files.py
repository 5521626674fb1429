"""The data files of a table that may have rows of a lane, by what the table's metadata says of
their columns."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from pyiceberg.conversions import from_bytes
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import PrimitiveType
from pyiceberg.utils.datetime import datetime_to_micros


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
