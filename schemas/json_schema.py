"""JSON Schema definitions: drafts 6, 7, 2019-09 and 2020-12, which is the default.

`$ref` leads to places of the same definition, by JSON pointer, and nowhere else: nothing is ever
fetched. Patterns run on an engine without backtracking, in time linear in the text; patterns that
it cannot run (with look-around or back-references) are refused. Formats that the drafts define are
checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from edge.decode_errors import not_json
from edge.problem import FieldError
from schemas.json_faults import explained
from schemas.limits import (
    MAX_DEPTH,
    MAX_ERRORS,
    MAX_PARTS,
    MAX_WORK,
    TooExpensive,
    bad,
    pointer,
    read_definition,
    shortened,
)
from schemas.price import EXPLAIN_NS, Price, of_keywords

DRAFTS = {
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}
DEFAULT_DRAFT = "https://json-schema.org/draft/2020-12/schema"
OLD_DRAFTS = frozenset(list(DRAFTS)[:2])
"""Drafts in which `$ref` hides the keywords beside it."""
PATTERN_BYTES = 1024 * 1024
NOT_COMPILED = (
    "cannot be compiled: a reference that leads nowhere, or a pattern that is wrong, too large, or "
    "has look-around or a back-reference"
)
NOWHERE = "leads to no place of this definition; it is a JSON pointer such as #/$defs/name"
MAX_JSON_DEPTH = 128

ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
SEVERAL = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords with a subschema (`ONE`), an array of them (`SEVERAL`), or an object of them
(`NAMED`).
"""
_REFUSED = frozenset(
    {"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "$vocabulary"}
)
_INDEX = re.compile(r"0|[1-9][0-9]{0,6}")
Path = tuple[str | int, ...]


class JsonSchema:
    """A compiled definition; `document` is its JSON."""

    def __init__(self, text: str, *, most_ns: float = float("inf")) -> None:
        """Compile a definition; raises BadDefinition, or TooExpensive if it may take longer than
        `most_ns`.
        """
        document = read_definition(text)
        self.draft = draft_of(document)
        assert isinstance(document, dict | bool)
        self.document: dict[str, Any] | bool = document
        self._subschemas, self._price = _Walk(self.document).go()
        if self._price.compile_ns(len(text)) > most_ns:
            raise TooExpensive
        try:
            self._validator = DRAFTS[self.draft](
                self.document,
                validate_formats=True,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
                offline=True,
                mask="it",
            )
        except jsonschema_rs.ValidationError as error:
            raise bad(error.instance_path, explained(error.kind)) from error
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            raise bad((), NOT_COMPILED) from error

    def check(self, data: bytes, *, most_ns: float = float("inf")) -> list[FieldError]:
        """Return up to `MAX_ERRORS` faults of a body; raises TooExpensive if that may take longer
        than `most_ns`.
        """
        size_bytes = len(data)
        if self._price.check_ns(size_bytes) > most_ns:
            raise TooExpensive
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return [FieldError("", shortened(f"is not JSON: {not_json(error)}"))]
        if _deep(value):
            return [FieldError("", f"is nested more than {MAX_JSON_DEPTH} deep")]
        if size_bytes * self._subschemas > MAX_WORK:
            most = MAX_WORK // self._subschemas
            return [FieldError("", f"at most {most} bytes with a schema of this size")]
        if self._validator.is_valid(value):
            return []
        explain_ns = self._price.explain_ns(size_bytes)
        if explain_ns > most_ns:
            raise TooExpensive
        if explain_ns > EXPLAIN_NS:
            return [FieldError("", "does not fit the schema; it is too large to say where")]
        found = islice(self._validator.iter_errors(value), MAX_ERRORS)
        return [
            FieldError(pointer(one.instance_path), shortened(explained(one.kind))) for one in found
        ]

    def is_valid(self, value: Any) -> bool:
        """Return whether a value from a definition, which is small, is valid."""
        return self._validator.is_valid(value)


def draft_of(document: object) -> str:
    """Return the draft of a definition; raises BadDefinition for an unknown one."""
    if not isinstance(document, dict | bool):
        raise bad((), "a JSON Schema is an object, true or false")
    named = document.get("$schema", DEFAULT_DRAFT) if isinstance(document, dict) else DEFAULT_DRAFT
    draft = named.removesuffix("#") if isinstance(named, str) else ""
    if draft not in DRAFTS:
        raise bad(("$schema",), "one of " + ", ".join(DRAFTS))
    return draft


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the subschemas of a schema, each with its path."""
    for keyword, value in schema.items():
        if keyword in SEVERAL and isinstance(value, list):
            yield from (((keyword, index), one) for index, one in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from (((keyword, name), one) for name, one in value.items())
        elif keyword in ONE:
            yield (keyword,), value


def referenced(document: object, reference: object) -> Any:
    """Return the place that a `$ref` leads to; raises KeyError if it is not in this document."""
    if not isinstance(reference, str) or "%" in reference:
        raise KeyError(reference)
    if reference != "#" and not reference.startswith("#/"):
        raise KeyError(reference)
    found: Any = document
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found[name]
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            raise KeyError(reference)
    return found


class _Walk:
    """A walk through a definition as a validator makes it: it follows references, and visits
    nothing twice.
    """

    def __init__(self, document: object) -> None:
        self._document = document
        self._known: dict[int, tuple[int, int, Price]] = {}
        self._open: set[int] = set()

    def go(self) -> tuple[int, Price]:
        """Return the number of subschemas and their price; raises BadDefinition."""
        parts, _, price = self._visit(self._document, ())
        return parts, price

    def _visit(self, schema: object, path: Path) -> tuple[int, int, Price]:
        """Return the number of subschemas, their depth and their price."""
        if not isinstance(schema, dict):
            return 1, 1, Price(once=1.0)
        key = id(schema)
        if key in self._open:
            raise bad(path, "contains itself; definitions that do are not supported")
        if key in self._known:
            return self._known[key]
        self._refuse(schema, path)
        self._open.add(key)
        parts = height = 0
        price = of_keywords(schema)
        for at, inner in self._inner(schema, path):
            more, deep, inner_price = self._visit(inner, at)
            parts, height = parts + more, max(height, deep)
            price = price.and_within(str(at[len(path)]), inner_price)
        self._open.discard(key)
        if height + 1 > MAX_DEPTH:
            raise bad(path, f"is nested more than {MAX_DEPTH} deep, with references followed")
        if parts + 1 > MAX_PARTS:
            raise bad(path, f"has more than {MAX_PARTS} subschemas, with references followed")
        self._known[key] = parts + 1, height + 1, price
        return self._known[key]

    def _inner(self, schema: dict[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
        if "$ref" in schema:
            at = (*path, "$ref")
            try:
                yield at, referenced(self._document, schema["$ref"])
            except KeyError:
                detail = (
                    "leads to no place of this definition; it is a JSON pointer such as #/$defs/x"
                )
                raise bad(at, detail) from None
        for at, inner in subschemas(schema):
            yield (*path, *at), inner

    def _refuse(self, schema: dict[str, Any], path: Path) -> None:
        for keyword in schema:
            if keyword in _REFUSED:
                raise bad((*path, keyword), "is not supported")
        if path and ("$id" in schema or "$schema" in schema):
            raise bad(path, "$id and $schema belong to the whole definition")


def _deep(value: object) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_JSON_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
