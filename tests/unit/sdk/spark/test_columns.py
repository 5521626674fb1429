"""The values that the server sends become the values that Spark expects, to the letter."""

from __future__ import annotations

import pyarrow as pa
import pytest
from packetboat.spark.bodies import Bodies
from packetboat.spark.columns import TYPES, Columns, arrow_schema, check
from packetboat.spark.errors import InvalidOption, ReadFailed
from packetboat.spark.ranges import Lane
from packetboat.spark.task import recut
from pyspark.sql.types import IntegerType, StructField, StructType

from tests.unit.sdk.spark.scripted_log import batch

ALL = StructType([StructField(name, kind) for name, kind in TYPES.items()])
LANE = Lane("orders", 3, 1)


def test_all_columns_have_the_types_that_spark_compares_with() -> None:
    made = Columns(ALL).of(batch([5, 6]), LANE)
    assert made.schema.equals(arrow_schema(ALL))
    assert made.column("topic").to_pylist() == ["orders", "orders"]
    assert made.column("lane").to_pylist() == [1, 1]
    assert made.column("offset").to_pylist() == [5, 6]
    assert made.column("attributes").to_pylist() == [[("n", "5")], [("n", "6")]]


def test_bodies_are_not_copied() -> None:
    given = batch([5, 6])
    made = Columns(ALL).of(given, LANE)
    for name in ("data", "offset", "message_id"):
        addresses = [each.column(name).buffers()[-1].address for each in (given, made)]
        assert addresses[0] == addresses[1], name


def test_only_what_is_wanted_is_made_in_the_order_wanted() -> None:
    body = StructType([StructField("n", IntegerType())])
    wanted = StructType(
        [StructField("data", TYPES["data"]), StructField("body", body), ALL["offset"]]
    )
    check(wanted)
    made = Columns(wanted, Bodies(None)).of(batch([5]), LANE)
    assert made.to_pylist() == [{"data": b'{"n":5}', "body": {"n": 5}, "offset": 5}]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("offsets", IntegerType()), "no column of packetboat: offsets"),
        (StructField("offset", IntegerType()), "the column offset is of type bigint"),
        (StructField("body", IntegerType()), "the column body is a struct"),
    ],
)
def test_columns_that_there_are_not(field: StructField, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        check(StructType([field]))


def test_a_server_that_lacks_a_column_is_named() -> None:
    with pytest.raises(ReadFailed, match="sends no column traceparent"):
        Columns(ALL).of(batch([5]).drop_columns(["traceparent"]), LANE)


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ([1] * 25, [10, 10, 5]),
        ([25], [10, 10, 5]),
        ([7, 7, 7], [7, 7, 7]),
        ([4, 6, 1], [10, 1]),
        ([0, 3, 0], [3]),
        ([], []),
    ],
)
def test_batches_are_of_a_size_that_pays(sizes: list[int], cut: list[int]) -> None:
    batches, at = [], 0
    for size in sizes:
        batches.append(batch(list(range(at, at + size))))
        at += size
    made = list(recut(batches, max_rows=10))
    assert [each.num_rows for each in made] == cut
    assert [n for each in made for n in each.column("offset").to_pylist()] == list(range(at))


def test_a_batch_ends_by_its_bytes_too() -> None:
    batches = [batch([n], data=[bytes(1000)]) for n in range(10)]
    made = list(recut(batches, max_bytes=3000))
    assert all(each.num_rows <= 3 for each in made)
    assert sum(each.num_rows for each in made) == 10
    assert all(isinstance(each, pa.RecordBatch) for each in made)
