"""The work of a task on its split: it reads, re-cuts, and selects the requested columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from packetboat.sync.sender import Sender

MAX_ROWS = 10_000
MAX_BYTES = 4 * 1024 * 1024


def recut(
    batches: Iterable[pa.RecordBatch], max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in record batches of a size that pays.

    The server makes one of each batch that was published, and of a topic that is published to
    message by message that is one row. Spark has a cost for each batch. One is complete when it
    reaches either limit, so it may exceed that of bytes by its last piece.
    """
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _pieces(batches, max_rows):
        if gathered and rows + batch.num_rows > max_rows:
            yield _joined(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= max_rows or size >= max_bytes:
            yield _joined(gathered)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield _joined(gathered)


def _pieces(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, max_rows):
            yield batch.slice(start, max_rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


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
