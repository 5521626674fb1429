"""Removal of rows from a table: the files that hold some are written again without them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from packetboat.models.export_runs import LaneRange
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from spark_exports.lake.columns import arrow_columns, decoded_bound
from spark_exports.lake.destination import Destination
from spark_exports.lake.envelope import ORDER
from spark_exports.lake.files import OpenFiles
from spark_exports.lake.reading import DataReader
from spark_exports.lake.written import WrittenFile


class Rewrite(msgspec.Struct, frozen=True):
    """Files of a rewrite: `removed` are live files of the table, `added` take their place."""

    removed: list[DataFile]
    added: list[WrittenFile]
    removed_rows: int


def without_ranges(table: Table, ranges: Sequence[LaneRange], to: Destination) -> Rewrite:
    """Write the files that hold rows of the ranges again without these rows.

    Raises ForeignFile.

    Files are read a row group at a time.
    """
    columns = arrow_columns(table.schema(), ids=True)
    removed = []
    removed_rows = 0
    with OpenFiles(to) as files:
        for file, overlapping in _candidates(table, ranges):
            with DataReader(to.file_io(), file.file_path, columns) as reader:
                masks = [
                    in_ranges(reader.row_group(number, ORDER), overlapping)
                    for number in range(reader.row_groups)
                ]
                count = sum(pc.sum(mask).as_py() or 0 for mask in masks)
                if not count:
                    continue
                removed.append(file)
                removed_rows += count
                if count == file.record_count:
                    continue
                for number, mask in enumerate(masks):
                    kept = reader.row_group(number).filter(pc.invert(mask))
                    for batch in kept.to_batches():
                        files.add(batch)
        return Rewrite(removed, files.finish(), removed_rows)


def in_ranges(rows: pa.Table | pa.RecordBatch, ranges: Sequence[LaneRange]) -> pa.ChunkedArray:
    """Return for each row whether it is in one of the ranges."""
    lanes = defaultdict(list)
    for each in ranges:
        lanes[each.key.topic, each.key.partition, each.key.lane].append(each)
    masks = [
        pc.and_(
            functools.reduce(
                pc.and_,
                (
                    pc.equal(rows.column("topic"), topic),
                    pc.equal(rows.column("partition"), partition),
                    pc.equal(rows.column("lane"), lane),
                ),
            ),
            functools.reduce(
                pc.or_, (_between(rows.column("offset"), each.start, each.end) for each in of_lane)
            ),
        )
        for (topic, partition, lane), of_lane in lanes.items()
    ]
    if not masks:
        return pa.chunked_array([pa.repeat(False, rows.num_rows)])
    return functools.reduce(pc.or_, masks).fill_null(False)


def _between(offsets: pa.ChunkedArray, start: int, end: int) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))


def _candidates(
    table: Table, ranges: Sequence[LaneRange]
) -> Iterator[tuple[DataFile, list[LaneRange]]]:
    """Yield the live files that may hold rows of some of the ranges, by the bounds in manifests."""
    bounds = _Bounds(table.schema())
    for task in table.scan().plan_files():
        overlapping = [each for each in ranges if bounds.may_hold(task.file, each)]
        if overlapping:
            yield task.file, overlapping


class _Bounds:
    def __init__(self, schema: Schema) -> None:
        self._fields = [schema.find_field(name) for name in ORDER]

    def may_hold(self, file: DataFile, wanted: LaneRange) -> bool:
        key = wanted.key
        spans = (
            (key.topic, key.topic),
            (key.partition, key.partition),
            (key.lane, key.lane),
            (wanted.start, wanted.end - 1),
        )
        return all(
            self._overlaps(file, field, first, last)
            for field, (first, last) in zip(self._fields, spans, strict=True)
        )

    def _overlaps(self, file: DataFile, field: NestedField, first: Any, last: Any) -> bool:
        low = (file.lower_bounds or {}).get(field.field_id)
        high = (file.upper_bounds or {}).get(field.field_id)
        # Bounds of long strings are shortened: the lower bound down, the upper bound up.
        return (low is None or decoded_bound(field.field_type, low) <= last) and (
            high is None or first <= decoded_bound(field.field_type, high)
        )
