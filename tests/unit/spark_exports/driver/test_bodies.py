"""Bodies as rows: what is in a column is what the body says, and what is not is in `rescued`."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_exports.driver.bodies.columns import grown, with_pinned
from spark_exports.driver.bodies.json_bodies import Decoded, JsonBodies
from spark_exports.driver.bodies.names import member_of
from spark_exports.driver.bodies.shape import Shape
from spark_exports.driver.bodies.values import Undecodable, json_value

NAMES = st.sampled_from(["a", "A", "b", "key", "x.y", "", "rescued", "é"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(['":', '"', "\\u0022:", "1e5", "0.12345678901234567890"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def columns_of(*bodies: object) -> pa.Schema:
    return grown(pa.schema([]), shape_of(*bodies))


def shape_of(*bodies: object) -> Shape:
    shape = Shape()
    for body in bodies:
        shape.see(json_value(json.dumps(body).encode()))
    return shape


def read(columns: pa.Schema, body: bytes) -> tuple[dict[str, Any], Decoded]:
    """The row by the names of columns, and how it was read."""
    reader = JsonBodies(columns)
    decoded = reader.row(body)
    batch = pa.RecordBatch.from_arrays(reader.node.arrays([decoded.row]), schema=columns)
    return batch.to_pylist()[0] if len(columns) else {}, decoded


def with_members(value: Any, kind: pa.DataType | pa.Schema) -> Any:
    """Return a column's value with the names of members again, without nulls."""
    if isinstance(value, dict):
        fields = {field.name: field for field in kind}
        return {
            member_of(fields[name]): with_members(one, fields[name].type)
            for name, one in value.items()
            if one is not None
        }
    if isinstance(value, list):
        return [with_members(one, kind.value_type) for one in value]
    return value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=4), OBJECTS)
def test_a_row_that_is_whole_has_all_of_its_body(before: list[Any], body: Any) -> None:
    columns = columns_of(*before)
    row, decoded = read(columns, json.dumps(body).encode())
    if decoded.is_whole:
        assert with_members(row, columns) == without_nulls(body)


@settings(deadline=None)
@given(st.lists(OBJECTS, max_size=4), OBJECTS, st.sampled_from([None, 1]))
def test_the_quick_reader_says_what_the_strict_one_says(
    before: list[Any], body: Any, indent: int | None
) -> None:
    columns = columns_of(*before, body)
    text = json.dumps(body, indent=indent).encode()
    quick = JsonBodies(columns)
    row, is_whole = quick.node.fit(json_value(text))
    decoded = quick.row(text)
    arrays = [quick.node.arrays([one]) for one in (decoded.row, row)]
    assert (arrays[0], decoded.is_whole) == (arrays[1], is_whole)


@settings(deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=5), st.randoms())
def test_the_order_of_messages_does_not_matter(bodies: list[Any], random: Any) -> None:
    shuffled = random.sample(bodies, len(bodies))
    assert columns_of(*bodies).equals(columns_of(*shuffled), check_metadata=True)


@settings(deadline=None)
@given(st.lists(OBJECTS, max_size=3), st.lists(OBJECTS, max_size=3))
def test_shapes_of_parts_make_the_shape_of_all(some: list[Any], others: list[Any]) -> None:
    joined = shape_of(*some)
    joined.add(shape_of(*others))
    other_way = shape_of(*others)
    other_way.add(shape_of(*some))
    assert joined == other_way == shape_of(*some, *others)


@settings(deadline=None)
@given(st.lists(st.lists(OBJECTS, min_size=1, max_size=3), min_size=1, max_size=3), st.randoms())
def test_runs_in_any_order_lose_nothing(runs: list[list[Any]], random: Any) -> None:
    """Each body of each run is whole in its columns, or is rescued."""
    columns = pa.schema([])
    for run in random.sample(runs, len(runs)):
        columns = grown(columns, shape_of(*run))
        for body in run:
            row, decoded = read(columns, json.dumps(body).encode())
            if decoded.is_whole:
                assert with_members(row, columns) == without_nulls(body)


@settings(deadline=None)
@given(st.lists(OBJECTS, max_size=3), st.lists(OBJECTS, max_size=3))
def test_columns_stay_as_they_are(first: list[Any], second: list[Any]) -> None:
    before = columns_of(*first)
    after = grown(before, shape_of(*second))
    assert after.names[: len(before)] == before.names
    for field in before:
        assert keeps(field.type, after.field(field.name).type)
    assert grown(after, shape_of(*first, *second)) == after


def keeps(before: pa.DataType, after: pa.DataType) -> bool:
    if pa.types.is_struct(before):
        return all(keeps(field.type, after.field(field.name).type) for field in before)
    if pa.types.is_list(before):
        return keeps(before.value_type, after.value_type)
    return bool(before == after)


@settings(deadline=None)
@given(st.lists(OBJECTS, max_size=4))
def test_no_two_columns_have_one_name(bodies: list[Any]) -> None:
    for fields in structs(columns_of(*bodies)):
        folded = [field.name.casefold() for field in fields]
        assert len(set(folded)) == len(folded)
        assert all(name and "." not in name for name in folded)
        assert len({member_of(field) for field in fields}) == len(folded)


def structs(kind: Any) -> list[Any]:
    found = [kind] if isinstance(kind, pa.Schema) or pa.types.is_struct(kind) else []
    if found:
        return found + [one for field in kind for one in structs(field.type)]
    return structs(kind.value_type) if pa.types.is_list(kind) else []


@settings(deadline=None)
@given(st.binary(max_size=30) | st.text(max_size=30).map(str.encode))
def test_any_bytes_are_a_row_or_rejected_for_a_reason(body: bytes) -> None:
    reader = JsonBodies(columns_of({"a": 1}))
    if is_object(body):
        assert reader.row(body).row is not None
        return
    with pytest.raises(Undecodable) as error:
        reader.row(body)
    assert error.value.reason


def is_object(body: bytes) -> bool:
    try:
        return isinstance(json_value(body), dict)
    except Undecodable:
        return False


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not-json"),
        (b"{", "not-json"),
        (b'{"a": 1} x', "not-json"),
        (b'{"a": 1}{}', "not-json"),
        (b'{"a": NaN}', "not-json"),
        (b'{"a": Infinity}', "not-json"),
        (b'{"a": 01}', "not-json"),
        (b"{'a': 1}", "not-json"),
        (b"\xef\xbb\xbf{}", "not-json"),
        (b'{"a": "\xff"}', "not-utf-8"),
        (b'{"a": "\xed\xa0\x80"}', "not-utf-8"),
        (b"[1]", "not-an-object"),
        (b"null", "not-an-object"),
        (b'"text"', "not-an-object"),
        (b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested-too-deep"),
    ],
)
def test_what_is_no_object_is_rejected(body: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as error:
        JsonBodies(columns_of({"a": 1})).row(body)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b'{"long": 9223372036854775807}', 2**63 - 1),
        (b'{"long": 9223372036854775808}', None),
        (b'{"long": 1.0}', None),
        (b'{"long": true}', None),
        (b'{"long": 1, "long": 1}', None),
        (b'{"long" : 1, "lon\\u0067": 2}', None),
        (b'{"double": 1}', 1.0),
        (b'{"double": 9007199254740993}', None),
        (b'{"double": 9007199254740992}', 2.0**53),
        (b'{"double": 0.1}', 0.1),
        (b'{"double": 0.30000000000000004}', 0.30000000000000004),
        (b'{"double": 0.300000000000000041}', None),
        (b'{"double": 1.50000000000000000}', 1.5),
        (b'{"double": 1e400}', None),
        (b'{"double": 1e-400}', None),
        (b'{"double": 1e999999999999999999999}', None),
        (b'{"double": 1E5}', 1e5),
        (b'{"string": 1}', None),
        (b'{"string": "\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"string": "\\ud83d"}', None),
        (b'{"string": "\\u0000"}', "\0"),
        (b'{"list": [1, null, 2]}', [1, None, 2]),
        (b'{"list": [1, "x"]}', [1, None]),
        (b'{"list": 1}', None),
        (b'{"struct": {"x": 1}}', {"x": 1}),
        (b'{"struct": {"x": "no"}}', {"x": None}),
        (b'{"struct": {"x": 1, "y": 2}}', {"x": 1}),
        (b'{"struct": {}}', {"x": None}),
        (b'{"struct": []}', None),
    ],
)
def test_a_value_is_held_exactly_or_rescued(body: bytes, kept: Any) -> None:
    columns = columns_of(
        {"long": 1, "double": 0.5, "string": "", "list": [1], "struct": {"x": 1}, "boolean": True}
    )
    row, decoded = read(columns, body)
    (member,) = json.loads(body)
    assert row[member] == kept
    in_full = with_members(kept, columns.field(member).type)
    told = json.loads(body)[member]
    assert decoded.is_whole == (kept is not None and in_full == told and b"lon\\" not in body)


def test_members_without_a_column_are_rescued_unless_they_are_null() -> None:
    columns = columns_of({"a": 1})
    assert read(columns, b'{"a": 1, "b": null}')[1].is_whole
    assert not read(columns, b'{"a": 1, "b": {}}')[1].is_whole
    assert not read(columns, b'{"a": 1, "b": []}')[1].is_whole


@pytest.mark.parametrize(
    ("pinned", "value", "kept"),
    [
        ("timestamp", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00+00:00"),
        ("timestamp", "2026-01-01T00:00:00.123456Z", "2026-01-01 00:00:00.123456+00:00"),
        ("timestamp", "2026-01-01T00:00:00.1234567Z", None),
        ("timestamp", "2026-01-01T00:00:00", None),
        ("timestamp", 1, None),
        ("date", "2026-02-28", "2026-02-28"),
        ("date", "2026-02-30", None),
        ("binary", "AAE=", "b'\\x00\\x01'"),
        ("binary", "AAE", None),
        ("decimal(5,2)", 1.5, "1.50"),
        ("decimal(5,2)", "999.99", "999.99"),
        ("decimal(5,2)", 1000, None),
        ("decimal(5,2)", 1.005, None),
        ("decimal(5,2)", "NaN", None),
        ("decimal(5,2)", True, None),
        ("decimal(20,0)", 2**64, str(2**64)),
        ("double", 1, "1.0"),
        ("string", "x", "x"),
    ],
)
def test_types_said_by_hand(pinned: str, value: Any, kept: str | None) -> None:
    columns = with_pinned(pa.schema([]), {"v": pinned})
    row, decoded = read(columns, json.dumps({"v": value}).encode())
    assert (None if row["v"] is None else str(row["v"])) == kept
    assert decoded.is_whole == (kept is not None)


def test_decimals_are_read_digit_by_digit() -> None:
    columns = with_pinned(pa.schema([]), {"v": "decimal(38,2)"})
    row, _ = read(columns, b'{"v": 12345678901234567890.12}')
    assert str(row["v"]) == "12345678901234567890.12"


def test_depth_ends_somewhere() -> None:
    value: Any = 1
    for _ in range(40):
        value = {"in": value}
    columns = columns_of({"deep": value, "flat": 1})
    row, decoded = read(columns, json.dumps({"deep": value, "flat": 1}).encode())
    assert (row["flat"], decoded.is_whole) == (1, False)


def test_negative_zero_stays_a_zero() -> None:
    row, decoded = read(columns_of({"d": 0.5}), b'{"d": -0.0}')
    assert math.copysign(1, row["d"]) == -1
    assert decoded.is_whole
