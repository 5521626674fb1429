"""Faults of a value by JSON Schema in our own words: the keyword and its limit."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_VALUE_CHARS = 120
_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "pattern": "must match the pattern {}",
    "format": "must be of the format {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "required": "{} is required",
}
"""The text for each keyword, with the place for its value in the definition."""
_OTHERS = {
    "uniqueItems": "must have no item twice",
    "additionalItems": "has more items than are described",
    "unevaluatedItems": "has more items than are described",
    "propertyNames": "has a member whose name does not fit",
    "contains": "has too few or too many items that fit `contains`",
    "anyOf": "fits none of the schemas of `anyOf`",
    "oneOf": "must fit exactly one of the schemas of `oneOf`",
    "not": "fits the schema of `not`",
    "falseSchema": "may not be there",
}


def explained(kind: Any) -> str:
    """Return the sentence for the kind of a `jsonschema_rs.ValidationError`: the rule for the
    value.
    """
    name: str = kind.name
    if name in _LIMITS:
        return _LIMITS[name].format(_shown(kind.value))
    if name == "type":
        return f"must be of type {' or '.join(sorted(map(str, kind.value)))}"
    if name in ("additionalProperties", "unevaluatedProperties"):
        return f"has members that are not described: {_shown(kind.value)}"
    return _OTHERS.get(name, f"does not fit the keyword {name}")


def _shown(value: object) -> str:
    """Return a value as JSON, shortened."""
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"
