"""Data files: Parquet by partition value, written anywhere, which only a commit makes visible.

`FileWriter` runs in workers, one call for each task: it gets batches and returns descriptions of
the files that it wrote, all of which are durable by then. The memory of a worker is bounded
(`Destination.max_buffered_bytes`, and a row group more), and so are the files open at a time
(`max_open_files`): the file that was written to longest ago is finished early, and its partition
may get another file.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import msgspec
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from spark_exports.lake.columns import arrow_columns
from spark_exports.lake.destination import Destination
from spark_exports.lake.parquet import ParquetFile
from spark_exports.lake.partition import Partitioner, Values
from spark_exports.lake.storage import delete_files
from spark_exports.lake.written import WrittenFile

__all__ = ["FILES", "FileWriter", "OpenFiles", "WrittenFile"]

FILES = pa.schema([("file", pa.binary())])
"""The columns of a writer's result, with a WrittenFile in each row."""


class FileWriter(msgspec.Struct, frozen=True):
    """A function for `DataFrame.mapInArrow` that turns batches into rows of `FILES`.

    A batch may lack columns of the table, which are then null, and may have no others.
    """

    destination: Destination

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with OpenFiles(self.destination) as files:
            for batch in batches:
                files.add(batch)
            written = files.finish()
        # Nothing is yielded before all is written: a caller that stops half-way must leave no
        # files.
        for file in written:
            yield pa.record_batch([pa.array([file.to_bytes()], pa.binary())], schema=FILES)


class OpenFiles:
    """The files that one task writes. Leaving the block before `finish` deletes all of them."""

    def __init__(self, destination: Destination) -> None:
        self._to = destination
        self._io = destination.file_io()
        self._schema = Schema.model_validate_json(destination.schema)
        self._spec = PartitionSpec.model_validate_json(destination.spec)
        self._columns = arrow_columns(self._schema, ids=True)
        self._partitioner = Partitioner(self._spec, self._schema)
        # In order of use: the first was written to longest ago.
        self._open: dict[Values, ParquetFile] = {}
        self._written: list[WrittenFile] = []
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._finished:
            self._abandon()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are kept until there are enough for a row group."""
        for values, part in self._partitioner.split(self._fit(batch)):
            file = self._open.pop(values, None) or self._new_file(values)
            self._open[values] = file
            file.append(part)
            if file.buffered_bytes >= self._row_group_bytes:
                file.write_row_group()
                if file.bytes_on_disk >= self._to.target_file_bytes:
                    self._finish_file(values)
        self._keep_bounds()

    def finish(self) -> list[WrittenFile]:
        """Close all files, which are complete and durable afterwards, and return them."""
        for values in list(self._open):
            self._finish_file(values)
        self._finished = True
        return self._written

    @property
    def _row_group_bytes(self) -> int:
        return min(self._to.row_group_bytes, self._to.target_file_bytes)

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        unknown = set(batch.schema.names) - set(self._columns.names)
        if unknown:
            raise ValueError(f"the table has no columns {sorted(unknown)}")
        arrays = []
        for field in self._columns:
            index = batch.schema.get_field_index(field.name)
            array = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, field.type)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _new_file(self, values: Values) -> ParquetFile:
        return ParquetFile(self._to, self._io, self._schema, self._spec, self._columns, values)

    def _finish_file(self, values: Values) -> None:
        file = self._open.pop(values)
        try:
            self._written.append(file.close())
        except BaseException:
            file.abandon()
            raise

    def _keep_bounds(self) -> None:
        while len(self._open) > self._to.max_open_files:
            self._finish_file(next(iter(self._open)))
        while (
            sum(file.buffered_bytes for file in self._open.values()) > self._to.max_buffered_bytes
        ):
            max(self._open.values(), key=lambda file: file.buffered_bytes).write_row_group()

    def _abandon(self) -> None:
        for file in self._open.values():
            file.abandon()
        delete_files(self._io, [file.location for file in self._written])
