"""Reads data files again, a row group at a time, as the table's columns are now."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_exports.lake.columns import field_paths
from spark_exports.lake.errors import LakeError


class ForeignFile(LakeError):
    """Its columns are not those that the table has under these ids: someone renamed or dropped
    some. Such files are read by id elsewhere, and not rewritten here."""

    code = "foreign-file"


class DataReader:
    """One file. `columns` are the table's, with field ids."""

    def __init__(self, file_io: PyArrowFileIO, location: str, columns: pa.Schema) -> None:
        self._columns = columns
        self._stream = file_io.new_input(location).open()
        try:
            self._file = pq.ParquetFile(self._stream)
            self._check_ids(location)
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close(force=True)
        self._stream.close()

    @property
    def row_groups(self) -> int:
        return int(self._file.num_row_groups)

    def row_group(self, number: int, names: Sequence[str] | None = None) -> pa.Table:
        """All columns of the table or the named ones; null where the file has none."""
        wanted = self._columns if names is None else pa.schema(map(self._columns.field, names))
        there = [name for name in wanted.names if name in self._file.schema_arrow.names]
        found = self._file.read_row_group(number, columns=there)
        arrays = []
        for field in wanted:
            if field.name in there:
                arrays.append(found.column(field.name).cast(field.type))
            else:
                arrays.append(pa.nulls(found.num_rows, field.type))
        return pa.Table.from_arrays(arrays, schema=wanted)

    def _check_ids(self, location: str) -> None:
        theirs = field_paths(self._file.schema_arrow)
        ours = field_paths(self._columns)
        if {id: ours.get(id) for id in theirs} != theirs:
            raise ForeignFile(location)
