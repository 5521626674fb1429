"""Reading of data files a row group at a time, with the present columns of the table."""

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
    """The file's columns are not those that the table has under these ids: some were renamed or
    dropped.

    Other readers find such columns by id; here such files are not rewritten.
    """

    code = "foreign-file"


class DataReader:
    """A reader of one file; `columns` are the table's, with field ids."""

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
        """Read a row group, with all columns of the table or the named ones; null if the file has
        none.
        """
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
