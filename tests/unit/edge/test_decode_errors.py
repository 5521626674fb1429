"""The error for a body that does not fit names the field, what it must be and the limit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from edge.decode_errors import field_error, not_json
from openapi.common import DisplayName
from openapi.contract import Body as Contract


class Choice(Contract):
    EXACTLY_ONE = ("id", "ids")
    id: str | msgspec.UnsetType = msgspec.UNSET
    ids: list[str] | msgspec.UnsetType = msgspec.UNSET


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["small", "large"]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=2)] = "a"
    items: Annotated[list[Inner], msgspec.Meta(max_length=1)] = []
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    data: bytes = b""
    flag: bool = True
    table: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")] = "a"
    title: DisplayName = ""
    labels: dict[str, str] = {}
    sizes: dict[Annotated[str, msgspec.Meta(pattern=r"^[0-9]\Z")], int] = {}
    chosen: Choice | None = None


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({"count": 9}, "count", "must be a whole number, at most 3"),
        ({"count": "9"}, "count", "must be a whole number, not a string"),
        ({"rate": 0}, "rate", "must be a number, more than 0"),
        ({"rate": []}, "rate", "must be a number or null, not an array"),
        ({"name": ""}, "name", "must have at least 1 characters"),
        ({"name": "abc"}, "name", "must have at most 2 characters"),
        ({"items": [{}, {}]}, "items[0].kind", "required"),
        ({"items": [{"kind": "huge"}]}, "items[0].kind", "must be one of small, large"),
        ({"items": [{"kind": "small"}] * 2}, "items", "must have at most 1 items"),
        ({"at": "2026-01-01T00:00:00"}, "at", "must be a time of RFC 3339 with its zone"),
        ({"at": "soon"}, "at", "must be a time of RFC 3339"),
        ({"data": "?"}, "data", "must be base64"),
        ({"flag": "yes"}, "flag", "must be true or false, not a string"),
        ({"table": "A"}, "table", "must match the pattern '^[a-z]+$'"),
        ({"title": "a\nb"}, "title", "must have no control characters"),
        ({"labels": {"a": 1}}, "labels[...]", "must be a string, not a whole number"),
        ({"sizes": {"a": 1}}, "sizes", "must match the pattern"),
        ({"chosen": {}}, "chosen", "one of id and ids, and only one"),
        ({"other": 1}, "other", "unknown field"),
        ([], "body", "must be an object, not an array"),
    ],
)
def test_the_field_and_what_it_must_be(body: Any, field: str, detail: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(msgspec.json.encode(body), type=Body)
    found = field_error(str(raised.value), kind=Body)
    assert found.field == field
    assert found.detail.startswith(detail)
    assert not any(mark in found.detail for mark in ("`", "Expected", "int", "str "))


def test_a_choice_at_the_root_names_the_first_of_its_fields() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(b"{}", type=Choice)
    assert field_error(str(raised.value)) == ("id", "one of id and ids, and only one")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "it ends too early"),
        (b'{"a":', "it ends too early"),
        (b"{,}", "byte 1 is not what JSON has there"),
        (b'"\xff"', "is not UTF-8"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_why_it_is_no_json(body: bytes, words: str) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError, RecursionError)) as raised:
        msgspec.json.decode(body)
    assert words in not_json(raised.value)
