"""A Parquet file while it is written, and its description for manifests."""

from __future__ import annotations

import secrets
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform

from spark_exports.lake.columns import decoded_bound
from spark_exports.lake.destination import Destination
from spark_exports.lake.partition import Values
from spark_exports.lake.written import WrittenFile

_COMPRESSION_LEVEL = 3
_UNLIKE_EACH_OTHER = frozenset(
    {"message_id", "offset", "publish_time", "traceparent", "data", "rescued"}
)
"""Columns for which a dictionary of values would only cost."""


class ParquetFile:
    """A file whose rows are kept until `write_row_group`; storage has nothing before the first of
    those.
    """

    def __init__(
        self,
        to: Destination,
        file_io: PyArrowFileIO,
        schema: Schema,
        spec: PartitionSpec,
        columns: pa.Schema,
        values: Values,
    ) -> None:
        self._to = to
        self._io = file_io
        self._schema = schema
        self._spec = spec
        self._columns = columns
        self._values = values
        self._pending: list[pa.RecordBatch] = []
        self._location = _new_location(to, spec, schema, values)
        self._paths = parquet_path_to_id_mapping(schema)
        self._stream: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self.buffered_bytes = 0
        self.bytes_on_disk = 0

    def append(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self.buffered_bytes += batch.nbytes

    def write_row_group(self) -> None:
        """Write the kept rows, as several groups if they are much more than one should have."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        groups = max(1, self.buffered_bytes // self._to.row_group_bytes)
        rows = -(-table.num_rows // groups)
        self._pending.clear()
        self.buffered_bytes = 0
        writer = self._writer or self._begin()
        writer.write_table(table, row_group_size=rows)
        assert self._stream is not None
        self.bytes_on_disk = self._stream.tell()

    def close(self) -> WrittenFile:
        """Write the rest and describe the file, which is then complete and durable; it has at least
        a row.
        """
        self.write_row_group()
        assert self._writer is not None
        assert self._stream is not None
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        return self._described(self._writer.writer.metadata, size)

    def abandon(self) -> None:
        """Delete everything that was written."""
        self._pending.clear()
        if self._stream is None:
            return
        with suppress(Exception):
            self._stream.close()
        with suppress(OSError):
            self._io.delete(self._location)

    def _begin(self) -> pq.ParquetWriter:
        self._stream = self._io.new_output(self._location).create()
        self._writer = pq.ParquetWriter(
            self._stream,
            self._columns,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=[p for p in self._paths if p not in _UNLIKE_EACH_OTHER],
            store_decimal_as_integer=True,
        )
        return self._writer

    def _described(self, metadata: pq.FileMetaData, size: int) -> WrittenFile:
        statistics = data_file_statistics_from_parquet_metadata(
            metadata, compute_statistics_plan(self._schema, self._to.properties), self._paths
        )
        for field_id in self._without_bounds(metadata):
            statistics.column_aggregates.pop(field_id, None)
        said = statistics.to_serialized_dict()
        file = WrittenFile(
            location=self._location,
            partition=self._values,
            spec_id=self._spec.spec_id,
            rows=said["record_count"],
            file_bytes=size,
            column_sizes=said["column_sizes"],
            value_counts=said["value_counts"],
            null_value_counts=said["null_value_counts"],
            lower_bounds=said["lower_bounds"],
            upper_bounds=said["upper_bounds"],
            split_offsets=said["split_offsets"],
        )
        self._check(file)
        return file

    def _without_bounds(self, metadata: pq.FileMetaData) -> set[int]:
        """Return the columns for which some row group lacks bounds, since Parquet leaves out long
        ones.

        The bounds of the other row groups are not those of the file, and readers would skip it.
        """
        unbounded = set()
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                statistics = column.statistics
                if statistics is None or (
                    not statistics.has_min_max and statistics.null_count != column.num_values
                ):
                    unbounded.add(self._paths[column.path_in_schema])
        return unbounded

    def _check(self, file: WrittenFile) -> None:
        """Check that the first and the last value of the file are in its partition.

        Buckets are not checked, since they do not follow the order of values.
        """
        for field, value in zip(self._spec.fields, self._values, strict=True):
            if isinstance(field.transform, BucketTransform) or value is None:
                continue
            kind = self._schema.find_field(field.source_id).field_type
            transform = field.transform.transform(kind)
            for bounds in (file.lower_bounds, file.upper_bounds):
                found = transform(decoded_bound(kind, bounds[field.source_id]))
                if found != value:
                    raise ValueError(f"{field.name} {found} in a file of {value}")


def _new_location(to: Destination, spec: PartitionSpec, schema: Schema, values: Values) -> str:
    directory = to.directory
    if to.partition_paths:
        for field, value in zip(spec.fields, values, strict=True):
            kind = field.transform.result_type(schema.find_field(field.source_id).field_type)
            directory += f"/{field.name}={field.transform.to_human_string(kind, value)}"
    return f"{directory}/{to.prefix}{secrets.token_hex(12)}.parquet"
