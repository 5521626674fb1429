"""The API's description, as tests of the SDK read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema_rs
from packetboat.transport import Request

import openapi


class Operation(NamedTuple):
    name: str
    method: str
    path: str
    described: Mapping[str, Any]
    parameters: Mapping[tuple[str, str], Mapping[str, Any]]
    """By place and name, header names in lower case."""

    @property
    def tag(self) -> str:
        return str(self.described["tags"][0])

    def answers(self) -> Iterator[Mapping[str, Any]]:
        """The schemas of its JSON answers that are successes."""
        for status, answer in self.described["responses"].items():
            for kind, content in resolved(answer).get("content", {}).items():
                if status.startswith("2") and kind.endswith("json") and "ndjson" not in kind:
                    yield content["schema"]


@cache
def document() -> dict[str, Any]:
    return openapi.document()


def resolved(value: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in value:
        found: Any = document()
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


@cache
def operations() -> dict[str, Operation]:
    """Return the operations of the API by name."""
    found = {}
    for path, item in document()["paths"].items():
        for method, described in item.items():
            if method == "parameters":
                continue
            given = [*item.get("parameters", []), *described.get("parameters", [])]
            parameters = {
                (each["in"], each["name"].lower() if each["in"] == "header" else each["name"]): each
                for each in map(resolved, given)
            }
            name = described["operationId"]
            found[name] = Operation(name, method.upper(), path, described, parameters)
    return found


def errors(schema: Mapping[str, Any], value: object) -> list[str]:
    """Return the reasons why a value does not fit a schema of the description."""
    text = json.dumps(schema, sort_keys=True)
    return [error.message for error in _validator(text).iter_errors(value)]


@cache
def _validator(schema: str) -> Any:
    """Return a validator for a schema in JSON; the cache saves reading all components again."""
    whole = {**json.loads(schema), "components": document()["components"]}
    return jsonschema_rs.validator_for(whole, validate_formats=True)


def misfits(operation: Operation, request: Request) -> list[str]:
    """Return the parts of a request that do not match the description of its operation."""
    target = urlsplit(request.path)
    pattern = re.sub(r"\\\{\w+\\\}", "([^/:]+)", re.escape(operation.path))
    found = [] if request.method == operation.method else [f"method {request.method}"]
    if re.fullmatch(pattern, target.path) is None:
        found.append(f"path {target.path}")
    given = [("query", name, value) for name, value in parse_qsl(target.query, True)]
    given += [
        ("header", name.lower(), unquote(value))
        for name, value in request.headers.items()
        if name.lower() not in ("content-type", "accept", "authorization")
    ]
    for place, name, value in given:
        found += _parameter_misfits(operation, place, name, value)
    for (place, name), described in operation.parameters.items():
        if described.get("required") and place == "query" and name not in (n for _, n, _ in given):
            found.append(f"no {name}")
    return found


def _parameter_misfits(operation: Operation, place: str, name: str, value: str) -> list[str]:
    described = operation.parameters.get((place, name))
    if described is None:
        return [f"unknown {place} {name}"]
    schema = resolved(described["schema"])
    if schema.get("type") == "array":
        schema = resolved(schema["items"])
    return [f"{place} {name}: {error}" for error in errors(schema, _read(value, schema))]


def _read(value: str, schema: Mapping[str, Any]) -> object:
    """Read the text of a parameter as a value of its type."""
    kind = schema.get("type")
    if kind == "boolean":
        return {"true": True, "false": False}.get(value, value)
    if kind in ("integer", "number"):
        number = float(value)
        return int(number) if number.is_integer() else number
    return value


def sample(schema: Mapping[str, Any], full: bool) -> Any:
    """Return a value that fits a schema.

    With `full` it has all members, otherwise the required ones, with null where it may be.
    """
    schema = resolved(schema)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "allOf" in schema:
        parts = [sample(each, full) for each in schema["allOf"]]
        return {name: value for part in parts for name, value in part.items()}
    for combined in ("oneOf", "anyOf"):
        if combined in schema:
            return _choice([sample(each, full) for each in schema[combined]], full)
    kinds = schema.get("type", "object" if "properties" in schema else "any")
    if isinstance(kinds, list):
        return _choice([sample({**schema, "type": kind}, full) for kind in kinds], full)
    return _of_kind(kinds, schema, full)


def _choice(values: list[Any], full: bool) -> Any:
    if not full and None in values:
        return None
    return next(value for value in values if value is not None)


def _of_kind(kind: str, schema: Mapping[str, Any], full: bool) -> Any:
    if kind == "object":
        return _object(schema, full)
    if kind == "array":
        return [sample(schema.get("items", {}), full)] if full else []
    if kind == "string":
        return _string(schema)
    least = schema.get("minimum", 1)
    values: dict[str, Any] = {
        "integer": least,
        "number": least + 0.5,
        "boolean": True,
        "null": None,
    }
    return values.get(kind, {"any": 1})


def _string(schema: Mapping[str, Any]) -> str:
    """Return a text that fits a schema, also one of base64."""
    if schema.get("format") == "date-time":
        return "2026-01-31T23:59:59.5Z"
    pattern = schema.get("pattern", "")
    if "{32}" in pattern:
        return "0" * 32
    return "QUJD" if re.match(pattern, "QUJD") else "qujd"


def _object(schema: Mapping[str, Any], full: bool) -> dict[str, Any]:
    members = {
        name: sample(described, full)
        for name, described in schema.get("properties", {}).items()
        if full or name in schema.get("required", ())
    }
    members |= {name: [] for name in schema.get("required", ()) if name not in members}
    more = schema.get("additionalProperties")
    if full and isinstance(more, Mapping) and not schema.get("properties"):
        members["name"] = sample(more, full)
    return members
