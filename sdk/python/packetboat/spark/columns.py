"""The columns of the data source: what the server sends, and what Spark wants of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from packetboat.spark.errors import InvalidOption, ReadFailed
from packetboat.spark.ranges import Lane

if TYPE_CHECKING:
    from packetboat.spark.bodies import Bodies

BODY = "body"
TYPES: dict[str, DataType] = {
    "topic": StringType(),
    "message_id": StringType(),
    "partition": IntegerType(),
    "lane": IntegerType(),
    "offset": LongType(),
    "publish_time": TimestampType(),
    "key": StringType(),
    "attributes": MapType(StringType(), StringType()),
    "content_type": StringType(),
    "data": BinaryType(),
    "publisher_id": StringType(),
    "priority": IntegerType(),
    "traceparent": StringType(),
}
_ADDED: dict[str, Callable[[Lane], Any]] = {
    "topic": lambda lane: lane.topic,
    "lane": lambda lane: lane.lane,
}


def ddl(body_schema: str | None) -> str:
    """Return the definitions of all columns; with `body_schema`, also of a struct column
    with its fields.
    """
    columns = [f"{name} {kind.simpleString()}" for name, kind in TYPES.items()]
    if body_schema is not None:
        columns.append(f"{BODY} struct<{body_schema}>")
    return ", ".join(columns)


def check(schema: StructType) -> None:
    """Check that a schema consists of our columns: any of them, in any order.

    Raises InvalidOption.
    """
    for field in schema.fields:
        if field.name == BODY:
            if not isinstance(field.dataType, StructType):
                raise InvalidOption(f"the column {BODY} is a struct")
        elif field.name not in TYPES:
            known = ", ".join([*TYPES, BODY])
            raise InvalidOption(f"no column of packetboat: {field.name} (there are: {known})")
        elif field.dataType != TYPES[field.name]:
            kind = TYPES[field.name].simpleString()
            raise InvalidOption(f"the column {field.name} is of type {kind}")


class Columns:
    """Makes of the server's record batches those of a schema that `check` has passed."""

    def __init__(self, schema: StructType, bodies: Bodies | None = None) -> None:
        self._schema = schema
        self._bodies = bodies

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema in Arrow, exactly as Spark compares it with ours."""
        return arrow_schema(self._schema)

    def of(self, batch: pa.RecordBatch, lane: Lane) -> pa.RecordBatch:
        """Return the same rows in these columns.

        A column that already has its type is not copied.
        """
        arrays = [self._column(field, batch, lane) for field in self.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _column(self, field: pa.Field, batch: pa.RecordBatch, lane: Lane) -> pa.Array:
        if field.name in _ADDED:
            value = pa.scalar(_ADDED[field.name](lane), field.type)
            return pa.repeat(value, batch.num_rows)
        if field.name == BODY:
            assert self._bodies is not None
            return self._bodies.decoded(batch, field.type)
        if field.name not in batch.schema.names:
            raise ReadFailed(f"the server sends no column {field.name}; is it older than this?")
        column = batch.column(field.name)
        return column if column.type == field.type else column.cast(field.type)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Times in UTC, which Spark 4.0 does by itself, and later ones are to be told."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        return to_arrow_schema(schema)
