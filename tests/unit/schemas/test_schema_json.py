from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.definition import JsonDefinition, incompatible
from schemas.json_schema import JsonSchema
from schemas.limits import (
    MAX_CHECKED_BYTES,
    MAX_DEFINITION_BYTES,
    MAX_ERRORS,
    BadDefinition,
    CannotCompare,
)

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "lines": {"items": {"$ref": "#/$defs/line"}}},
    "$defs": {"line": {"type": "object", "properties": {"a/b": {"minLength": 2}}}},
}


def definition(schema: Any) -> JsonDefinition:
    return JsonDefinition(json.dumps(schema))


def fields(schema: Any, body: bytes, kind: str | None = "application/json") -> list[str]:
    return [error.field for error in definition(schema).check(body, kind)]


def test_what_is_wrong_is_named_by_json_pointer() -> None:
    assert fields(ORDER, b'{"id":1,"lines":[{"a/b":"xy"}]}') == []
    assert fields(ORDER, b'{"id":"1","lines":[{},{"a/b":"x"}]}') == ["/id", "/lines/1/a~1b"]
    assert fields(ORDER, b"{}") == [""]
    assert fields(ORDER, b"{") == [""]
    assert fields(ORDER, b'{"id":1}', "application/cloudevents+json; charset=utf-8") == []
    for kind in (None, "text/plain", "application/avro"):
        assert fields(ORDER, b'{"id":1}', kind) == ["content_type"]


def test_what_a_check_may_cost_is_bounded() -> None:
    many = json.dumps(["x"] * 1000).encode()
    assert len(fields({"items": {"type": "integer"}}, many)) == MAX_ERRORS
    assert fields({}, b'"' + b"x" * MAX_CHECKED_BYTES + b'"') == [""]
    assert fields({}, b"[" * 200 + b"]" * 200) == [""]
    assert fields({}, b"[" * 20_000 + b"]" * 20_000) == [""]
    wide = {"allOf": [{"minItems": number} for number in range(1500)]}
    assert "at most" in definition(wide).check(b"[" + b" " * 500_000 + b"]", "a/b+json")[0].detail


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"$ref": "https://example.com/other"}, "/$ref"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "/properties/a/$ref"),
        ({"$ref": "#/$defs/none"}, "/$ref"),
        ({"$ref": "#"}, "/$ref"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, None),
        ({"pattern": "(?=a)b"}, "/pattern"),
        ({"pattern": "("}, "/pattern"),
        ({"type": "text"}, "/type"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "/$schema"),
        ({"properties": {"a": {"$id": "b"}}}, "/properties/a"),
        ({"$dynamicRef": "#a"}, "/$dynamicRef"),
        ([], ""),
        ({"description": "x" * MAX_DEFINITION_BYTES}, ""),
    ],
)
def test_definitions_that_are_refused(schema: Any, field: str | None) -> None:
    with pytest.raises(BadDefinition) as refused:
        definition(schema)
    assert field is None or refused.value.errors[0].field == field


def test_definitions_that_grow_when_references_are_followed_are_refused() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(12)}
    with pytest.raises(BadDefinition, match="more than"):
        definition({"$defs": doubling | {"d12": {}}, "$ref": "#/$defs/d0"})
    deep: Any = {}
    for _ in range(40):
        deep = {"items": deep}
    with pytest.raises(BadDefinition, match="deep"):
        definition(deep)


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
WITH_B = CLOSED | {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"),
    [
        (CLOSED, CLOSED, None, None),
        (CLOSED, CLOSED | {"title": "A"}, None, None),
        (CLOSED, WITH_B, None, "/b"),
        (CLOSED, CLOSED | {"required": ["a"]}, "/a", None),
        ({"type": "integer"}, {"type": "number"}, None, ""),
        ({"type": ["string", "null"]}, {"type": "string"}, "", None),
        ({"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}, None, ""),
        ({"enum": ["a"]}, {"type": "string"}, None, ""),
        ({"const": 1}, {"enum": [True]}, "", ""),
        ({"minimum": 5}, {"minimum": 6}, "", None),
        ({"exclusiveMinimum": 5}, {"minimum": 5}, None, ""),
        ({"multipleOf": 6}, {"multipleOf": 3}, None, ""),
        ({"maxLength": 3, "type": "string"}, {"maxLength": 2, "type": "string"}, "", None),
        ({"items": {"type": "integer"}}, {"items": {"type": "number"}}, None, "/items"),
        (
            {"$defs": {"x": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/x"}}},
            {"properties": {"a": {"type": "number"}}},
            None,
            "/a",
        ),
        ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, None, ""),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, {"type": "integer"}, None, "cannot"),
        ({"pattern": "^a"}, {"pattern": "^b"}, "cannot", "cannot"),
        ({"not": {"type": "string"}}, {}, None, "cannot"),
        ({"x-unit": "m"}, {}, None, "cannot"),
        ({}, {"unevaluatedProperties": False}, "cannot", None),
        ({}, {"properties": {"a": {"type": "string"}}}, "/a", None),
        ({"type": "null", "const": {}}, {"const": {}}, None, ""),
        (
            {"patternProperties": {"^x": {"type": "string"}}},
            {"properties": {"xa": {"type": "string"}}},
            "/xa",
            "cannot",
        ),
        (
            {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
            {"items": {"type": ["integer", "string"]}},
            None,
            "cannot",
        ),
    ],
)
def test_what_breaks_between_versions(
    old: Any, new: Any, backward: str | None, forward: str | None
) -> None:
    """`expected` is None, the pointer to the first break, or `cannot` if the two are not
    compared.
    """
    for mode, expected in (("backward", backward), ("forward", forward)):
        if expected == "cannot":
            with pytest.raises(CannotCompare):
                incompatible(mode, definition(new), definition(old))
            continue
        errors = incompatible(mode, definition(new), definition(old))
        assert [error.field for error in errors[:1]] == ([] if expected is None else [expected])


def test_full_is_both_and_drafts_are_not_compared() -> None:
    errors = incompatible("full", definition({"minimum": 6}), definition({"maximum": 3}))
    assert {error.detail.split(":")[0] for error in errors} == {"old messages", "old readers"}
    old = {"$schema": "http://json-schema.org/draft-07/schema#"}
    with pytest.raises(CannotCompare, match="drafts"):
        incompatible("backward", definition({}), definition(old))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "bb", 0.5]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
NAMES = st.sampled_from(["a", "b", "c"])
PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-1, 3),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "pattern": st.sampled_from(["a", "b"]),
        "required": st.lists(NAMES, max_size=2, unique=True),
    },
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.builds(
        lambda plain, more: plain | more,
        PLAIN,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(NAMES, inner, max_size=2),
                "patternProperties": st.dictionaries(
                    st.sampled_from(["a", "b|c"]), inner, max_size=1
                ),
                "additionalProperties": inner,
                "propertyNames": inner,
                "items": inner,
                "prefixItems": some,
                "contains": inner,
                "allOf": some,
                "anyOf": some,
                "oneOf": some,
                "not": inner,
                "unevaluatedProperties": inner,
                "if": inner,
                "then": inner,
            },
        ),
    )


SCHEMAS = st.recursive(PLAIN | st.booleans(), _nested, max_leaves=4)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, min_size=1, max_size=12))
def test_what_is_said_to_be_compatible_is(old: Any, new: Any, values: list[Any]) -> None:
    """If no break is reported, the new schema refuses no value that the old one allows."""
    try:
        errors = definition(new).reads(definition(old))
    except CannotCompare:
        return
    if errors:
        return
    was, now = JsonSchema(json.dumps(old)), JsonSchema(json.dumps(new))
    for value in values:
        assert now.is_valid(value) or not was.is_valid(value), value


@pytest.mark.parametrize(
    ("keyword", "value", "detail"),
    [
        ({"type": "string"}, 1, "must be of type string"),
        ({"type": ["string", "null"]}, 1, "must be of type null or string"),
        ({"minimum": 3}, 1, "must be at least 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3"),
        ({"maxLength": 2}, "abc", "must have at most 2 characters"),
        ({"enum": [1, "a"]}, 2, 'must be one of [1,"a"]'),
        ({"const": {"a": 1}}, 2, 'must be {"a":1}'),
        ({"pattern": "^x"}, "y", 'must match the pattern "^x"'),
        ({"format": "date"}, "no", 'must be of the format "date"'),
        ({"required": ["a"]}, {}, '"a" is required'),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"z": 1},
            'has members that are not described: ["z"]',
        ),
        ({"uniqueItems": True}, [1, 1], "must have no item twice"),
        ({"anyOf": [{"type": "string"}]}, 1, "fits none of the schemas of `anyOf`"),
        ({"oneOf": [{}, {}]}, 1, "must fit exactly one of the schemas of `oneOf`"),
        ({"not": {}}, 1, "fits the schema of `not`"),
        ({"properties": {"a": False}}, {"a": 1}, "may not be there"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "has a member whose name does not fit"),
        ({"contains": {"type": "string"}}, [1], "has too few or too many items"),
    ],
)
def test_what_is_wrong_is_said_in_our_own_words(keyword: Any, value: Any, detail: str) -> None:
    schema = JsonSchema(json.dumps(keyword))
    found = schema.check(json.dumps(value).encode())
    assert [error.detail[: len(detail)] for error in found] == [detail]
