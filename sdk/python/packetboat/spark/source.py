"""The data source `packetboat`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from packetboat.spark.batch import BatchReader
from packetboat.spark.columns import ddl
from packetboat.spark.options import ReadOptions, read_options
from packetboat.spark.stream import StreamReader, UnlimitedStreamReader
from packetboat.spark.task import Task


class PacketboatDataSource(DataSource):
    """Topics as tables of messages: `spark.read` has what there is, `spark.readStream` what comes.

    Spark makes one of it for each DataFrame, in a process of its own beside the driver.
    """

    environment: ClassVar[Mapping[str, str] | None] = None
    """The environment in which the planner finds servers and credentials that no option
    names; None: that of its process.
    """
    parallelism: ClassVar[int | None] = None
    """The number of tasks that run at once; None: no limit."""

    @classmethod
    def name(cls) -> str:
        return "packetboat"

    def schema(self) -> str:
        """Return the definitions of all columns."""
        return ddl(self._read_options().body_schema)

    def reader(self, schema: StructType) -> BatchReader:
        """`schema` may be one that the user gave: then only these columns are made."""
        return BatchReader(self._task(schema), self.parallelism)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Return the stream reader for the running version of Spark."""
        return _stream_reader()(self._task(schema), self.parallelism)

    def _task(self, schema: StructType) -> Task:
        return Task(self._read_options(), schema)

    def _read_options(self) -> ReadOptions:
        environment = os.environ if self.environment is None else self.environment
        return read_options(self.options, environment)


def _stream_reader() -> type[StreamReader]:
    try:
        from packetboat.spark.limited_stream import LimitedStreamReader
    except ImportError:  # before Spark 4.2
        return UnlimitedStreamReader
    return LimitedStreamReader
