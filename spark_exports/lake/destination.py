"""Where an attempt writes its files."""

from __future__ import annotations

import msgspec
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_exports.lake.storage import LakeFileIO

MAX_OPEN_FILES = 64
MAX_BUFFERED_BYTES = 192 * 1024 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024
"""Of Arrow's memory; on disk it is a fraction of that."""


class Destination(msgspec.Struct, frozen=True):
    """And how: all a worker has to know, as plain values. `schema` and `spec` are Iceberg's JSON,
    `storage` PyIceberg's properties. `partition_paths`: below `directory`, a directory for each
    partition (for readers that know no manifests). `prefix`: names of files begin with it."""

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
