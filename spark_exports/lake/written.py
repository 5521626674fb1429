"""A data file that was written, and that no commit names yet."""

from __future__ import annotations

import msgspec
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from spark_exports.lake.partition import Values


class WrittenFile(msgspec.Struct, frozen=True):
    """The file's description for Iceberg's manifests; counts, sizes and bounds are by field id."""

    location: str
    partition: Values
    spec_id: int
    rows: int
    file_bytes: int
    column_sizes: dict[int, int] = {}
    value_counts: dict[int, int] = {}
    null_value_counts: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    split_offsets: list[int] = []

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, encoded: bytes) -> WrittenFile:
        return msgspec.msgpack.decode(encoded, type=cls)

    @property
    def directory(self) -> str:
        """Directory of the attempt that wrote it, in which all files of the attempt are."""
        return self.location.rpartition("/")[0]

    def data_file(self) -> DataFile:
        """Return the entry for a manifest."""
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.location,
            file_format=FileFormat.PARQUET,
            partition=Record(*self.partition),
            record_count=self.rows,
            file_size_in_bytes=self.file_bytes,
            column_sizes=self.column_sizes,
            value_counts=self.value_counts,
            null_value_counts=self.null_value_counts,
            nan_value_counts={},
            lower_bounds=self.lower_bounds,
            upper_bounds=self.upper_bounds,
            key_metadata=None,
            split_offsets=self.split_offsets,
            equality_ids=None,
            sort_order_id=None,
        )
        file.spec_id = self.spec_id
        return file
