from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import avro, avro_bodies
from schemas.definition import AvroDefinition, incompatible
from schemas.limits import BadDefinition

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "currency",
            "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "CHF"]},
        },
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "parts", "type": {"type": "array", "items": "Currency"}, "default": []},
        {"name": "more", "type": {"type": "map", "values": "double"}, "default": {}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
    ],
}
VALUE = {
    "id": 7,
    "currency": "CHF",
    "note": "x",
    "parts": ["EUR"],
    "more": {"a": 1.5},
    "hash": b"ab",
}


def definition(schema: Any) -> AvroDefinition:
    return AvroDefinition(json.dumps(schema))


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_bodies_binary_and_json() -> None:
    payment = definition(PAYMENT)
    body = written(PAYMENT, VALUE)
    assert payment.check(body, "avro/binary") == []
    assert payment.check(body, "application/avro; v=1") == []
    assert [e.field for e in payment.check(body, "application/octet-stream")] == ["content_type"]
    text = VALUE | {"hash": "ab", "note": {"string": "x"}}
    assert payment.check(json.dumps(text).encode(), "application/json") == []
    wrong = text | {"note": "x", "parts": ["EUR", "USD"], "id": 2**63, "hash": "ä…", "extra": 1}
    errors = payment.check(json.dumps(wrong).encode(), "application/json")
    assert [e.field for e in errors] == ["/id", "/note", "/parts/1", "/hash", "/extra"]


def test_each_prefix_and_each_longer_body_is_refused() -> None:
    payment, body = definition(PAYMENT), written(PAYMENT, VALUE)
    for length in range(len(body)):
        assert payment.check(body[:length], "avro/binary") != []
    assert payment.check(body + b"\0", "avro/binary") != []


def test_a_small_body_cannot_make_work() -> None:
    nulls = definition({"type": "array", "items": "null"})
    assert nulls.check(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "avro/binary") != []
    assert definition("long").check(b"\xff" * 11, "avro/binary") != []
    assert definition("bytes").check(b"\x01", "avro/binary") != []  # length −1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "A", "fields": [{"name": "n", "type": ["null", "A"]}]},
        {"type": "array"},
        {"type": "enum", "name": "E", "symbols": ["a", "a"]},
        {"type": "enum", "name": "E", "symbols": ["a"], "default": "b"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "record", "name": "1a", "fields": []},
        {"type": "record", "name": "A", "fields": [{"name": "x", "type": "B"}]},
        {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int", "default": "no"}]},
        ["null", "null"],
        ["null", ["int"]],
        [],
        5,
        {"type": 5},
        {"type": "record", "name": "A", "fields": [{"name": "x"}]},
        "nope",
    ],
)
def test_definitions_that_are_refused(schema: Any) -> None:
    with pytest.raises(BadDefinition):
        definition(schema)


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


A: dict[str, Any] = {"name": "a", "type": "int"}
B: dict[str, Any] = {"name": "b", "type": "string"}


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"),
    [
        (record(A), record(A), None, None),
        (record(A), record(A, B), "/b", None),
        (record(A), record(A, B | {"default": ""}), None, None),
        (record(A, B), record(A), None, "/b"),
        (record(A), record(A | {"type": "long"}), None, "/a"),
        (record(A), record({"name": "c", "type": "int", "aliases": ["a"]}), None, "/a"),
        (record(A), record(A, name="S"), "", ""),
        ("string", "bytes", None, None),
        ("int", ["null", "int"], None, ""),
        (["null", "int"], "int", "", None),
        (record(A | {"type": {"type": "array", "items": "int"}}), record(A), "/a", "/a"),
        (
            {"type": "enum", "name": "E", "symbols": ["a"]},
            {"type": "enum", "name": "E", "symbols": ["a", "b"]},
            None,
            "",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["a"], "default": "a"},
            {"type": "enum", "name": "E", "symbols": ["a", "b"]},
            None,
            None,
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "",
            "",
        ),
    ],
)
def test_what_breaks_between_versions(
    old: Any, new: Any, backward: str | None, forward: str | None
) -> None:
    for mode, expected in (("backward", backward), ("forward", forward)):
        errors = incompatible(mode, definition(new), definition(old))
        assert [error.field for error in errors[:1]] == ([] if expected is None else [expected])
    errors = incompatible("full", definition(new), definition(old))
    assert (errors == []) is (backward is None and forward is None)


LEAVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string", "bytes"])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> Any:
    """Without names used twice."""
    kind = draw(st.sampled_from(["leaf", "array", "map", "union", "record", "enum", "fixed"]))
    name = f"N{draw(st.integers(0, 10**9))}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["x", "y"]}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(0, 3))}
    if kind == "leaf" or depth > 2:
        return draw(LEAVES)
    if kind == "union":
        return draw(st.lists(LEAVES, min_size=1, max_size=3, unique=True))
    inner = schemas(depth + 1)
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind == "map":
        return {"type": "map", "values": draw(inner)}
    types = draw(st.lists(inner, max_size=3))
    return record(*({"name": f"f{n}", "type": each} for n, each in enumerate(types)), name=name)


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*map(values, schema))
    match schema if isinstance(schema, str) else schema["type"]:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**63), 2**63 - 1)
        case "float":
            return st.floats(width=32)
        case "double":
            return st.floats()
        case "string":
            return st.text(max_size=5)
        case "bytes":
            return st.binary(max_size=5)
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "map":
            return st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=3)
    return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in schema["fields"]})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_another_library_writes_is_read_to_its_last_byte(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    try:
        parsed = avro.parse(json.dumps(schema))
    except BadDefinition as error:
        assert "twice" in str(error)  # noqa: PT017
        return
    body = written(schema, data.draw(values(schema)))
    assert avro_bodies.check_binary(parsed, body) == []
    assert avro_bodies.check_binary(parsed, body + b"\0") != []


@settings(max_examples=60, deadline=None)
@given(st.data(), st.binary(max_size=12))
def test_what_is_accepted_another_library_reads(data: st.DataObject, body: bytes) -> None:
    schema = data.draw(schemas())
    try:
        parsed = avro.parse(json.dumps(schema))
    except BadDefinition:
        return
    if avro_bodies.check_binary(parsed, body) == []:
        source = io.BytesIO(body)
        fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
        assert source.read() == b""
