"""Says the JSON Schema of a value in words, for the pages of the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openapi.json_schema import PREFIX, Schema

Link = Callable[[str], str]
"""Returns the link to a named schema."""
_SAID_ELSEWHERE = {"description", "default"}
_FORMATS = {"date-time": "time", "uri": "URI", "binary": "bytes"}


def in_words(schema: Schema, link: Link) -> str:
    """Return the type of a value with its limits. Raise an error for what this cannot say."""
    return ", ".join(_said({**schema}, link))


def listed(words: list[str], last: str = "or") -> str:
    """Return words as a sentence lists them."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def _said(schema: Schema, link: Link) -> list[str]:
    """Return the type of a value, and then each of its limits."""
    for name in _SAID_ELSEWHERE:
        schema.pop(name, None)
    if not schema:
        return ["any JSON"]
    if name := schema.pop("$ref", None):
        said = [link(name.removeprefix(PREFIX))]
    elif alternatives := schema.pop("anyOf", None):
        said = [listed([_inner(each, link) for each in alternatives])]
    elif words := schema.pop("enum", None):
        schema.pop("type")
        said = [listed(["null" if each is None else f"`{each}`" for each in words])]
    else:
        kinds = schema.pop("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        said = [listed([_kind(each, schema, link) for each in kinds])]
        said += _limits(schema, link)
    if schema:
        raise TypeError(f"the reference has no words for {schema}")
    return said


def _inner(schema: Schema, link: Link) -> str:
    """Return the type of a part of a value, with its limits in brackets."""
    kind, *limits = _said({**schema}, link)
    return f"{kind} ({', '.join(limits)})" if limits else kind


def _kind(name: str, schema: Schema, link: Link) -> str:
    if name == "string":
        if schema.pop("contentEncoding", None):
            return "base64"
        return _FORMATS[schema.pop("format")] if "format" in schema else "string"
    if name == "array":
        unlike = "different " if schema.pop("uniqueItems", False) else ""
        return f"list of {unlike}{_inner(schema.pop('items'), link)}"
    if name == "object":
        values = schema.pop("additionalProperties", None)
        return f"map of {_inner(values, link)}" if values else "object"
    return name


def _limits(schema: Schema, link: Link) -> list[str]:
    found = [
        _range(schema, "minimum", "maximum", ""),
        _range(schema, "minLength", "maxLength", " characters"),
        _range(schema, "minItems", "maxItems", " items"),
        _range(schema, "minProperties", "maxProperties", " entries"),
    ]
    if (above := schema.pop("exclusiveMinimum", None)) is not None:
        found.insert(0, f"more than {_number(above)}")
    if pattern := schema.pop("pattern", None):
        found.append(f"matches {code(pattern)}")
    if names := schema.pop("propertyNames", None):
        found.append(f"names: {', '.join(_limits({**names}, link))}")
    return [each for each in found if each]


def _range(schema: Schema, least: str, most: str, unit: str) -> str:
    low, high = schema.pop(least, None), schema.pop(most, None)
    if high is None and low == 1 and unit:
        return "not empty"
    if high is None:
        return "" if low is None else f"{_number(low)}{unit} or more"
    if low is None:
        return f"at most {_number(high)}{unit}"
    return f"{_number(low)} to {_number(high)}{unit}" if low != high else f"{_number(low)}{unit}"


def _number(value: float) -> str:
    return f"{value:,}"


def code(text: str) -> str:
    """Return a text as code, in the cell of a table."""
    escaped = text.replace("|", "\\|")
    return f"`` {escaped} ``" if "`" in escaped else f"`{escaped}`"


def default(value: Any) -> str:
    """Return a default as JSON, as code."""
    return code(json.dumps(value, ensure_ascii=False))
