"""The work of a task on its split: it reads, re-cuts, and selects the requested columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from packetboat.calls import messaging, tenancy
from packetboat.spark.avro import AvroSchemas
from packetboat.spark.bodies import Bodies, converter
from packetboat.spark.columns import BODY, Columns, arrow_schema, check
from packetboat.spark.options import ReadOptions
from packetboat.spark.pace import Pace
from packetboat.spark.planning import ask, sender_of
from packetboat.spark.ranges import Split
from packetboat.spark.reading import SplitReader
from packetboat.spark.recut import recut
from packetboat.sync.sender import Sender


@dataclass(frozen=True)
class Task:
    """All that a worker needs to read splits; made on the driver, where it is checked."""

    options: ReadOptions
    schema: StructType

    def __post_init__(self) -> None:
        """Raises InvalidOption for columns that there are not."""
        check(self.schema)
        if BODY in self.schema.names:
            converter(arrow_schema(self.schema).field(BODY).type)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Record batches as the schema has them. Raises ReadFailed."""
        options = self.options
        whole = options.max_bytes_per_s
        pace = Pace(None if whole is None else whole / split.concurrent)
        with sender_of(options) as sender:
            reader = SplitReader(
                sender,
                split,
                filter=options.filter,
                pace=pace,
                retry_for_s=options.retry_for_s,
                skips_truncated=options.skips_truncated,
            )
            columns = Columns(self.schema, self._bodies(sender, split.lane.topic))
            for batch in recut(reader.batches()):
                yield columns.of(batch, split.lane)

    def _bodies(self, sender: Sender, topic: str) -> Bodies | None:
        """Asked of the topic when it is read: a query may last for longer than a schema is the
        latest."""
        if BODY not in self.schema.names:
            return None
        patience_s = self.options.retry_for_s
        name = ask(sender, messaging.get_topic(topic), patience_s).schema
        if name is None:
            return Bodies(None)
        schema = ask(sender, tenancy.get_schema(name), patience_s)
        if schema.type != "avro":
            return Bodies(None)

        def version(number: int) -> object:
            call = tenancy.get_schema_version(name, number)
            return ask(sender, call, patience_s).definition

        return Bodies(AvroSchemas(schema.number, schema.definition, version))
