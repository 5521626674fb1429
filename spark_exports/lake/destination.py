"""The directory of an attempt's files, and how they are written."""

from __future__ import annotations

import msgspec
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_exports.lake.storage import LakeFileIO

MAX_OPEN_FILES = 64
MAX_BUFFERED_BYTES = 192 * 1024 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024
"""Bytes of a row group in Arrow's memory; on disk it is a fraction of that."""


class Destination(msgspec.Struct, frozen=True):
    """All that a worker needs to write files, as plain values.

    `schema` and `spec` are Iceberg's JSON, `storage` has PyIceberg's properties. `partition_paths`
    makes a directory for each partition below `directory`, for readers that know no manifests.
    Names of files begin with `prefix`.
    """

    directory: str
    storage: dict[str, str]
    schema: str
    spec: str
    properties: dict[str, str]
    target_file_bytes: int
    row_group_bytes: int = ROW_GROUP_BYTES
    max_buffered_bytes: int = MAX_BUFFERED_BYTES
    max_open_files: int = MAX_OPEN_FILES
    partition_paths: bool = False
    prefix: str = ""

    def file_io(self) -> PyArrowFileIO:
        return LakeFileIO(dict(self.storage))
