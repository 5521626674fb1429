"""Bodies from the columns of a table: what was published, but for how it was written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from packetboat.lake import ReadMessage
from packetboat.lake.tables import Rows

from tests.unit.sdk.lake_support import RESCUED, Lake, row


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.close()


def named(name: str, member: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"doc": member})


def read(lake: Lake, *columns: pa.Field, **values: Any) -> ReadMessage:
    """Write a row to a table; return it as it is read from there."""
    made = lake.table("t", RESCUED, *columns)
    made.append([row(0, **values)])
    (found,) = made.table.scan().to_arrow().to_pylist()
    return Rows(made.table.schema()).message(found)


def test_nulls_are_members_that_are_not_there(lake: Lake) -> None:
    struct = pa.struct([("x", pa.int64()), ("y", pa.string())])
    columns = (pa.field("a", pa.int64()), pa.field("b", struct), pa.field("c", pa.list_(struct)))
    values = {"a": None, "b": {"x": 1, "y": None}, "c": [{"x": None, "y": "y"}, None]}
    assert read(lake, *columns, **values).json() == {"b": {"x": 1}, "c": [{"y": "y"}, None]}


def test_a_body_without_members_is_an_empty_object(lake: Lake) -> None:
    message = read(lake, pa.field("a", pa.int64()))
    assert (message.data, message.body, message.json()) == (None, b"{}", {})


def test_members_have_their_names_again(lake: Lake) -> None:
    inner = pa.struct([named("ID_2", "ID", pa.int64()), pa.field("id", pa.int64())])
    columns = (
        named("body_topic", "topic", pa.string()),
        named("a_b", "a.b", pa.int64()),
        pa.field("body_key", pa.string()),
        pa.field("many", pa.list_(inner)),
    )
    many = [{"ID_2": 1, "id": 2}]
    message = read(lake, *columns, body_topic="t", a_b=1, body_key="k", many=many)
    expected = {"topic": "t", "a.b": 1, "body_key": "k", "many": [{"ID": 1, "id": 2}]}
    assert message.json() == expected


def test_types_that_json_has_not(lake: Lake) -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    columns = (
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
        pa.field("raw", pa.binary()),
        pa.field("price", pa.decimal128(20, 2)),
    )
    message = read(lake, *columns, at=at, day=date(2026, 1, 31), raw=b"\x00", price=Decimal("1.5"))
    assert message.columns is not None
    assert message.columns["at"] == at
    assert message.body == (
        b'{"at":"2026-01-31T12:00:00Z","day":"2026-01-31","raw":"AA==","price":1.50}'
    )


def test_a_rescued_body_is_the_body(lake: Lake) -> None:
    message = read(lake, pa.field("a", pa.int64()), rescued='{"a": "x"}')
    assert (message.data, message.columns) == (b'{"a": "x"}', None)


def test_a_body_that_is_kept_is_the_body(lake: Lake) -> None:
    message = read(lake, pa.field("a", pa.int64()), a=1, data=b'{ "a": 1 }')
    assert (message.body, message.text) == (b'{ "a": 1 }', '{ "a": 1 }')


def test_the_envelope(lake: Lake) -> None:
    message = read(lake)
    assert (message.topic, message.partition, message.lane, message.offset) == ("orders", 0, 0, 0)
    assert (message.key, message.attributes, message.publisher_id) == ("k0", {"a": "b"}, "p")
    assert message.publish_time == datetime(2026, 1, 1, tzinfo=UTC)
