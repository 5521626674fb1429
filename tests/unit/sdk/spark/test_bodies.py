"""Bodies as values of a struct: what fits is there, what does not is null."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from packetboat.spark.avro import AvroSchemas
from packetboat.spark.bodies import Bodies, converter
from packetboat.spark.errors import InvalidOption

from tests.unit.sdk.spark.scripted_log import batch

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
NEWER = ORDER | {"fields": [*ORDER["fields"], {"name": "tag", "type": "string"}]}  # type: ignore[misc]


def decoded(kind: pa.StructType, *bodies: bytes, **columns: Any) -> list[Any]:
    bodies_of = Bodies(columns.pop("avro", None))
    return bodies_of.decoded(
        batch(list(range(len(bodies))), data=[*bodies], **columns), kind
    ).to_pylist()


def one(kind: pa.DataType, value: object) -> Any:
    (found,) = decoded(pa.struct([("v", kind)]), json.dumps({"v": value}).encode())
    return found["v"]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.int32(), 7, 7),
        (pa.int32(), 2**31, None),
        (pa.int8(), -128, -128),
        (pa.int64(), 1.5, None),
        (pa.int64(), True, None),
        (pa.int64(), "7", None),
        (pa.float64(), 7, 7.0),
        (pa.float32(), 1.5, 1.5),
        (pa.float64(), 10**400, float("inf")),
        (pa.float64(), "x", None),
        (pa.bool_(), True, True),
        (pa.bool_(), 1, None),
        (pa.string(), "é", "é"),
        (pa.string(), {"a": [1, "é"]}, '{"a":[1,"é"]}'),
        (pa.string(), 7, "7"),
        (pa.binary(), "aGk=", b"hi"),
        (pa.binary(), "?", None),
        (pa.timestamp("us", "UTC"), "2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), "soon", None),
        (pa.timestamp("us", "UTC"), 5, None),
        (pa.date32(), "2026-01-01", date(2026, 1, 1)),
        (pa.date32(), "2026-13-01", None),
        (pa.decimal128(5, 2), "123.45", Decimal("123.45")),
        (pa.decimal128(5, 2), 7, Decimal("7.00")),
        (pa.decimal128(5, 2), 1000, None),
        (pa.decimal128(5, 2), "NaN", None),
        (pa.list_(pa.int64()), [1, "x", None], [1, None, None]),
        (pa.list_(pa.int64()), {"a": 1}, None),
        (pa.map_(pa.string(), pa.int64()), {"a": 1, "b": None}, [("a", 1), ("b", None)]),
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}, {"a": 1}),
        (pa.struct([("a", pa.int64())]), [1], None),
    ],
)
def test_values(kind: pa.DataType, value: object, found: object) -> None:
    assert one(kind, value) == found


def test_what_is_no_object_is_null_as_a_whole() -> None:
    kind = pa.struct([("n", pa.int64())])
    bodies = [b"[1]", b"{", b"\xff", b"{}", b'{"n": 1}', b"[" * 100_000]
    assert decoded(kind, *bodies) == [None, None, None, {"n": None}, {"n": 1}, None]


def test_only_json_is_taken_for_json() -> None:
    kinds = [
        None,
        "application/json; charset=utf-8",
        "Application/X+JSON",
        "text/plain",
        "avro/binary",
    ]
    found = decoded(pa.struct([("n", pa.int64())]), *[b'{"n":1}'] * 5, content_type=kinds)
    assert found == [{"n": 1}] * 3 + [None, None]


def test_types_that_bodies_cannot_have_are_refused_at_once() -> None:
    with pytest.raises(InvalidOption, match="bodies have no duration"):
        converter(pa.struct([("v", pa.list_(pa.duration("us")))]))


def avro(value: object, schema: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, value)
    return body.getvalue()


def test_avro_is_decoded_by_the_version_that_wrote_it() -> None:
    fetched = []

    def fetch(number: int) -> object:
        fetched.append(number)
        return ORDER

    bodies = [
        avro({"id": 1, "note": None, "tag": "x"}, NEWER),
        avro({"id": 2, "note": "n"}, ORDER),
        avro({"id": 3, "note": None}, ORDER),
        avro({"id": 4, "note": "n"}, ORDER) + b"\0",
        b"",
        b'{"id": 5, "note": {"string": "n"}, "tag": "y"}',
    ]
    first = [("packetboat-schema-version", "1")]
    found = decoded(
        pa.struct([("id", pa.int64()), ("note", pa.string()), ("tag", pa.string())]),
        *bodies,
        avro=AvroSchemas(2, NEWER, fetch),
        content_type=["avro/binary"] * 5 + ["application/json"],
        attributes=[[], first, first, first, [], []],
    )
    assert found == [
        {"id": 1, "note": None, "tag": "x"},
        {"id": 2, "note": "n", "tag": None},
        {"id": 3, "note": None, "tag": None},
        None,
        None,
        {"id": 5, "note": "n", "tag": "y"},
    ]
    assert fetched == [1]
