"""The parts of each route in the contract: its parameters, its bodies, and a request that
is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import openapi
from tests.security import operations

Ids = Mapping[str, str]
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Parameter:
    name: str
    where: str
    """path, query or header."""
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """A property that a JSON body may have, at whatever depth."""

    path: tuple[str, ...]
    """`name[]` stands for an item of a list of that name."""
    schema: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True)
class Route:
    """One that the product serves, as the contract describes it."""

    method: str
    template: str
    public: bool
    parameters: tuple[Parameter, ...]
    bodies: Mapping[str, Mapping[str, Any]]
    """The schema of each content type that it takes."""
    _good: operations.Operation | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return f"{self.method} {self.template}"

    def good(self, ids: Ids) -> tuple[str, dict[str, str], Any]:
        """The path with its query, headers, and the JSON body or None, of a request that would be
        answered well (which of its names are there changes as requests are served)."""
        if self._good is None:
            path = self.template.replace("{asset}", "none")
            schema = next(iter(self.bodies.values()), None)
            return path, {}, None if schema is None else example(schema)
        asked = self._good.request(ids)
        query = "&".join(
            f"{name}={quote(value)}" for name, value in asked.get("params", {}).items()
        )
        path = asked["path"] + ("?" + query if query else "")
        return path, dict(asked.get("headers", {})), asked.get("json")

    def fields(self) -> Iterator[Field]:
        """Yield the fields of the JSON body."""
        if JSON in self.bodies:
            yield from _fields(self.bodies[JSON], ())


def routes() -> dict[tuple[str, str], Route]:
    """Return all routes of the contract, by method and template."""
    good = {(one.method, one.template): one for one in operations.operations()}
    found = {}
    for template, item in openapi.document()["paths"].items():
        for method in operations.METHODS:
            if method not in item:
                continue
            described = item[method]
            parameters = [*item.get("parameters", ()), *described.get("parameters", ())]
            content = resolved(described.get("requestBody", {})).get("content", {})
            key = method.upper(), template
            found[key] = Route(
                *key,
                described.get("security") == [],
                tuple(
                    Parameter(one["name"], one["in"], resolved(one["schema"]))
                    for one in map(resolved, parameters)
                ),
                {kind: resolved(body.get("schema", {})) for kind, body in content.items()},
                good.get(key),
            )
    return found


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a reference names, or the schema itself."""
    while "$ref" in schema:
        target: Any = openapi.document()
        for key in schema["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        schema = target
    return schema


def example(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a small value of that type, with the required members."""
    schema = resolved(schema)
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return example(schema[several][0], depth)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        known = schema.get("properties", {})
        required = schema.get("required", ()) if depth < 6 else ()
        return {name: example(known.get(name, {}), depth + 1) for name in required}
    if kind == "array":
        return [example(schema.get("items", {}), depth + 1)]
    return {"string": "a", "integer": 1, "number": 1, "boolean": True}.get(kind)


def _fields(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Field]:
    schema = resolved(schema)
    for several in ("oneOf", "anyOf", "allOf"):
        for one in schema.get(several, ()):
            yield from _fields(one, path)
    if len(path) > 3:
        return
    for name, inner in schema.get("properties", {}).items():
        yield Field((*path, name), resolved(inner))
        yield from _fields(inner, (*path, name))
        yield from _fields(resolved(inner).get("items", {}), (*path, f"{name}[]"))
