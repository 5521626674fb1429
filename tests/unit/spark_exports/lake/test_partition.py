"""Each row is in the partition that Iceberg's transform says, and rows keep their order."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from spark_exports.lake.columns import arrow_columns, new_schema
from spark_exports.lake.envelope import ENVELOPE
from spark_exports.lake.layout import Layout
from spark_exports.lake.partition import Partitioner, Values
from tests.unit.spark_exports.lake.lake_support import batch, message

SCHEMA = new_schema(ENVELOPE)
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)).map(
    lambda time: time.replace(tzinfo=UTC)
)
KEYS = st.one_of(st.none(), st.just(""), st.text(max_size=3))


def dumb(layout: Layout, row: dict[str, object]) -> Values:
    """Return the partition of one row, by PyIceberg alone."""
    values = []
    for field in layout.spec(SCHEMA).fields:
        source = SCHEMA.find_field(field.source_id)
        values.append(field.transform.transform(source.field_type)(row[source.name]))
    return tuple(values)


@given(
    layout=st.sampled_from(
        [Layout("hour"), Layout("day"), Layout("day", 5), Layout("hour", 1), Layout("none", 16)]
    ),
    rows=st.lists(st.tuples(TIMES, KEYS), min_size=1, max_size=30),
)
def test_partitions_are_icebergs(layout: Layout, rows: list[tuple[datetime, str | None]]) -> None:
    messages = [
        message(offset, publish_time=time, key=key) for offset, (time, key) in enumerate(rows)
    ]
    expected: dict[Values, list[int]] = {}
    for row in messages:
        expected.setdefault(dumb(layout, row), []).append(row["offset"])

    parts = list(Partitioner(layout.spec(SCHEMA), SCHEMA).split(batch(messages)))

    assert {values: part["offset"].to_pylist() for values, part in parts} == expected
    assert len(parts) == len(expected)


def test_without_partitions_a_batch_stays_whole() -> None:
    rows = batch(message(offset) for offset in range(5))
    parts = list(Partitioner(Layout("none").spec(SCHEMA), SCHEMA).split(rows))
    assert parts == [((), rows)]
    assert list(Partitioner(Layout("day").spec(SCHEMA), SCHEMA).split(rows.slice(0, 0))) == []


def test_a_key_may_be_empty_and_that_is_not_null() -> None:
    spec = Layout("none", 4).spec(SCHEMA)
    rows = batch([message(0, key=""), message(1, key=None)])
    parts = {
        values: part["offset"].to_pylist() for values, part in Partitioner(spec, SCHEMA).split(rows)
    }
    assert parts == {(0,): [0], (None,): [1]}


def test_other_transforms_are_refused() -> None:
    field = PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="x")
    with pytest.raises(ValueError, match="no export partitions by identity"):
        Partitioner(PartitionSpec(field), SCHEMA)


def test_columns_of_the_envelope_are_the_tables() -> None:
    assert arrow_columns(SCHEMA) == ENVELOPE
    assert pa.types.is_timestamp(ENVELOPE.field("publish_time").type)
