"""Asks for each limit of the contract: what fits it and what is one beyond.

The first request of an operation that was accepted is sent again for each limit of each field, with
that field changed. With a value that fits, a field that no operation has is at the end of the body:
it alone is refused then, and nothing is done. Rules that are looked at after the body has been read
see no value that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import openapi

UNKNOWN = "colour"
FITS = "fits"
AT_LIMIT = frozenset({"minimum", "maximum", "maxItems", "maxLength", "maxProperties"})
UNASKED = frozenset({"publishBatch"})
"""A batch is accepted with items that are refused: each would be published that is not."""
MOST_ITEMS = 1_000
MOST_CHARACTERS = 10_000
"""Longer values would be refused for the size of the body."""
OTHER_TYPES: dict[str, Any] = {
    "string": 7,
    "integer": "7",
    "number": "7",
    "boolean": "true",
    "array": {},
    "object": [],
}
Path = tuple[str | int, ...]


class Case(NamedTuple):
    """A body in which one field has been changed."""

    field: str
    limit: str
    body: dict[str, Any]


def cases(operation: str, accepted: dict[str, Any]) -> Iterator[Case]:
    """Yield a case for each limit of a JSON body, from one that was accepted."""
    schema = _schema_of(operation)
    if schema is None or operation in UNASKED:
        return
    for field in _resolved(schema, accepted).get("required", []):
        left = {name: value for name, value in accepted.items() if name != field}
        yield Case(field, "missing", left)
    for path, limit, value in _limits(schema, (), accepted):
        body = _with(accepted, path, value)
        if limit.partition(" ")[0] in AT_LIMIT:
            # The unknown field comes last: what is wrong before it is told instead of it.
            body |= {UNKNOWN: 1}
        yield Case(_shown(path), limit, body)


def outcome(status: int, body: Any) -> str:
    """Return what an answer says of a case, in a few words."""
    if not isinstance(body, dict) or "type" not in body:
        return str(status)
    fields = [str(error.get("field")) for error in body.get("errors", [])]
    if fields == [UNKNOWN]:
        return FITS
    problem = str(body["type"]).rpartition("/")[2]
    return " ".join([str(status), problem, *fields])


def _schema_of(operation: str) -> dict[str, Any] | None:
    for item in openapi.document()["paths"].values():
        for described in item.values():
            if isinstance(described, dict) and described.get("operationId") == operation:
                content = described.get("requestBody", {}).get("content", {})
                found: dict[str, Any] | None = content.get("application/json", {}).get("schema")
                return found
    return None


def _resolved(schema: dict[str, Any], present: Any = None) -> dict[str, Any]:
    """Return a schema with its reference followed.

    If it has alternatives, return the one whose members a present value has, or the first.
    """
    while True:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            schema = openapi.document()["components"]["schemas"][name]
            continue
        kinds = [
            _resolved(kind, present)
            for kind in schema.get("oneOf") or schema.get("anyOf") or []
            if kind.get("type") != "null"
        ]
        if not kinds or "properties" in schema:
            return schema
        members = present.keys() if isinstance(present, dict) else set()
        fitting = [kind for kind in kinds if members >= set(kind.get("required", ["?"]))]
        return (fitting or kinds)[0]


def _may_be_null(schema: dict[str, Any]) -> bool:
    alternatives = [*schema.get("oneOf", []), *schema.get("anyOf", [])]
    return {"type": "null"} in alternatives


def _limits(schema: dict[str, Any], path: Path, present: Any) -> Iterator[tuple[Path, str, Any]]:
    """Yield the place of a field, a limit of it, and a value at the limit or one beyond."""
    kinds = ["null"] if _may_be_null(schema) else []
    schema = _resolved(schema, present)
    types = schema.get("type", [])
    kinds += [types] if isinstance(types, str) else list(types)
    if path:
        yield from ((path, limit, value) for limit, value in _of_value(schema, kinds))
    if "object" in kinds:
        members = present if isinstance(present, dict) else {}
        for name, member in schema.get("properties", {}).items():
            yield from _limits(member, (*path, name), members.get(name))
    elif "array" in kinds and isinstance(schema.get("items"), dict):
        first = present[0] if isinstance(present, list) and present else None
        yield from _limits(schema["items"], (*path, 0), first)


def _of_value(schema: dict[str, Any], kinds: list[str]) -> Iterator[tuple[str, Any]]:
    if kinds and "null" not in kinds:
        yield "null", None
    for kind in kinds:
        if kind in OTHER_TYPES and len([one for one in kinds if one != "null"]) == 1:
            yield f"not of type {kind}", OTHER_TYPES[kind]
    if "enum" in schema:
        yield "not of the enum", "none-of-these"
    step = 1 if "integer" in kinds else 0.001
    for name, beyond in (("minimum", -step), ("maximum", step)):
        if name in schema:
            yield f"{name} {schema[name]}", schema[name]
            yield f"beyond {name} {schema[name]}", schema[name] + beyond
    if "exclusiveMinimum" in schema:
        yield f"exclusiveMinimum {schema['exclusiveMinimum']}", schema["exclusiveMinimum"]
    yield from _of_text(schema)
    yield from _of_collection(schema)


def _of_text(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    most, least = schema.get("maxLength"), schema.get("minLength")
    if most is not None and most <= MOST_CHARACTERS:
        yield f"maxLength {most}", "a" * most
        yield f"beyond maxLength {most}", "a" * (most + 1)
    if least is not None:
        yield f"beyond minLength {least}", "a" * (least - 1)
    if "pattern" in schema:
        yield "not of the pattern", "\x00 #/"
    if schema.get("format") == "date-time":
        yield "no date-time", "noon"


def _of_collection(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    item = _least(schema.get("items", {}))
    most = schema.get("maxItems")
    if most is not None and most <= MOST_ITEMS:
        yield f"maxItems {most}", [item] * most
        yield f"beyond maxItems {most}", [item] * (most + 1)
    if schema.get("minItems"):
        yield f"beyond minItems {schema['minItems']}", [item] * (schema["minItems"] - 1)
    if "maxProperties" in schema and isinstance(schema.get("additionalProperties"), dict):
        most = schema["maxProperties"]
        yield f"maxProperties {most}", {f"a{number}": "x" for number in range(most)}
        yield f"beyond maxProperties {most}", {f"a{number}": "x" for number in range(most + 1)}
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and "maxLength" in values:
        most = values["maxLength"]
        yield f"maxLength {most} of a value", {"a": "a" * most}
        yield f"beyond maxLength {most} of a value", {"a": "a" * (most + 1)}


def _least(schema: dict[str, Any]) -> Any:
    """Return a small value of a schema."""
    schema = _resolved(schema)
    if "enum" in schema:
        return schema["enum"][0]
    types = schema.get("type", "string")
    kind = types if isinstance(types, str) else types[0]
    if kind == "object":
        required = schema.get("required", [])
        return {name: _least(schema["properties"][name]) for name in required}
    small: dict[str, Any] = {"array": [], "boolean": False, "string": "a"}
    return small.get(kind, schema.get("minimum", 1))


def _with(body: Any, path: Path, value: Any) -> Any:
    """Return a body with another value at a place, and what is missing on the way there."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        members = body if isinstance(body, list) and body else [{}]
        return [_with(members[0], rest, value), *members[1:]]
    members = body if isinstance(body, dict) else {}
    return members | {first: _with(members.get(first), rest, value)}


def _shown(path: Path) -> str:
    return ".".join(str(part) for part in path).replace(".0", "[0]")
