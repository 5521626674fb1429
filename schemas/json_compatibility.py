"""Compares JSON Schemas: whether one allows every value that another allows, judged by keywords.

The answer is yes only if the narrower schema's keywords imply each keyword of the wider one. If
that cannot be told (a keyword that is not compared differs), the answer is CannotCompare, never a
guess. A reported break may, rarely, be none: `{"minimum": 6}` is said to allow less than
`{"minimum": 5, "maximum": 4}`, which allows nothing.

These keywords are compared: type, enum, const, required, properties, patternProperties (as a
whole), additionalProperties, propertyNames, items, prefixItems (as a whole), the limits of numbers,
lengths and counts, multipleOf, uniqueItems, allOf, anyOf, and $ref into the definition. Everything
else must be the same in both, or stand in the narrower one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec

from edge.problem import FieldError
from schemas.json_schema import OLD_DRAFTS, JsonSchema, referenced
from schemas.limits import CannotCompare, pointer, shortened

TYPES = frozenset({"null", "boolean", "number", "string", "array", "object"})
ANNOTATIONS = frozenset(
    {
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
LOWER = {
    "minimum": "number",
    "exclusiveMinimum": "number",
    "minLength": "string",
    "minItems": "array",
    "minProperties": "object",
}
UPPER = {
    "maximum": "number",
    "exclusiveMaximum": "number",
    "maxLength": "string",
    "maxItems": "array",
    "maxProperties": "object",
}
APPLIES = (
    LOWER
    | UPPER
    | {
        "multipleOf": "number",
        "pattern": "string",
        "uniqueItems": "array",
        "items": "array",
        "prefixItems": "array",
        "required": "object",
        "properties": "object",
        "patternProperties": "object",
        "additionalProperties": "object",
        "propertyNames": "object",
    }
)
"""The type of value that each keyword is about; it says nothing of values of other types."""
MAX_STEPS = 10_000
Path = tuple[str | int, ...]
Parts = list[dict[str, Any]]
"""A schema as the conjunction of these parts, none of which has `$ref` or `allOf`."""


def not_allowed(wider: JsonSchema, narrower: JsonSchema) -> list[FieldError]:
    """Return the breaks where `narrower` allows a value that `wider` does not; [] if there are
    none.

    They are named by JSON pointer into values. Raises CannotCompare.
    """
    if wider.document == narrower.document and _same(wider.document, narrower.document):
        return []
    if wider.draft != narrower.draft:
        raise CannotCompare("$schema: definitions of different drafts are not compared")
    return _Comparison(wider, narrower).go()


class _Comparison:
    def __init__(self, wider: JsonSchema, narrower: JsonSchema) -> None:
        self._wider = wider
        self._narrower = narrower
        self._steps = 0
        self._judges: dict[bytes, JsonSchema] = {}

    def go(self) -> list[FieldError]:
        return self._breaks(self._wider.document, self._narrower.document, ())

    def _breaks(self, wide: Any, narrow: Any, path: Path) -> list[FieldError]:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise CannotCompare("the definitions are too large to be compared")
        wide_parts = list(_parts(self._wider, wide))
        narrow_parts = list(_parts(self._narrower, narrow))
        if not wide_parts or any("not-anything" in part for part in narrow_parts):
            return []
        for part in narrow_parts:
            if "anyOf" in part or "oneOf" in part:
                return self._of_each(part, wide, narrow_parts, path, wide_parts)
        return self._of_parts(wide_parts, narrow_parts, path)

    def _of_each(
        self, part: dict[str, Any], wide: Any, narrow: Parts, path: Path, wide_parts: Parts
    ) -> list[FieldError]:
        """Check that each alternative of the narrower schema is allowed, together with its other
        keywords.
        """
        try:
            whole = self._of_parts(wide_parts, narrow, path)
        except CannotCompare:
            whole = [FieldError(pointer(path), "differs")]
        if not whole:
            return []
        keyword = "anyOf" if "anyOf" in part else "oneOf"
        rest = {name: value for name, value in part.items() if name != keyword}
        beside = [rest if one is part else one for one in narrow]
        errors: list[FieldError] = []
        for alternative in part[keyword]:
            errors += self._breaks(wide, {"allOf": [*beside, alternative]}, path)
        return errors

    def _of_parts(self, wide: Parts, narrow: Parts, path: Path) -> list[FieldError]:
        errors: list[FieldError] = []
        for part in wide:
            errors += self._of_part(part, narrow, path)
        return errors

    def _of_part(self, wide: dict[str, Any], narrow: Parts, path: Path) -> list[FieldError]:
        """Check that some part of the narrower schema implies each keyword of this one."""
        if "not-anything" in wide:
            return [FieldError(pointer(path), "is not allowed any more")]
        values = _values(narrow)
        if values is not None and not any(_refers(part) for part in (wide, *narrow)):
            left = [value for value in values if all(self._allows(part, value) for part in narrow)]
            return [
                FieldError(pointer(path), shortened(f"the value {value!r} is not allowed"))
                for value in left
                if not self._allows(wide, value)
            ]
        types = _types(narrow)
        errors: list[FieldError] = []
        for keyword in wide:
            if keyword in ANNOTATIONS or APPLIES.get(keyword, "") not in {"", *types}:
                continue
            errors += self._of_keyword(keyword, wide, narrow, types, path)
        return errors

    def _allows(self, part: dict[str, Any], value: Any) -> bool:
        """Return whether a part that refers to no other allows a value."""
        text = _encode(part | {"$schema": self._wider.draft})
        judge = self._judges.get(text)
        if judge is None:
            judge = self._judges[text] = JsonSchema(text.decode())
        return judge.is_valid(value)

    def _of_keyword(
        self, keyword: str, wide: dict[str, Any], narrow: Parts, types: frozenset[str], path: Path
    ) -> list[FieldError]:
        value = wide[keyword]
        if keyword == "type":
            return _of_type(value, narrow, path)
        if keyword in LOWER or keyword in UPPER or keyword in {"multipleOf", "uniqueItems"}:
            if any(_implies(part, keyword, value) for part in narrow):
                return []
            return [FieldError(pointer(path), f"{keyword} {value} was not demanded")]
        if keyword in {"enum", "const"}:
            if any(keyword in part and _same(part[keyword], value) for part in narrow):
                return []
            return [FieldError(pointer(path), f"may be what is not in {keyword}")]
        if keyword == "required":
            given = {name for part in narrow for name in part.get("required", ())}
            return [
                FieldError(pointer((*path, name)), "is required, and was not")
                for name in value
                if name not in given
            ]
        if keyword == "properties":
            errors = []
            for name, schema in value.items():
                for source in _of_property(name, narrow):
                    errors += self._breaks(schema, source, (*path, name))
            return errors
        if keyword == "additionalProperties":
            return self._additional(wide, narrow, path)
        if keyword == "propertyNames":
            names = {"allOf": [{"type": "string"}, *_each(narrow, "propertyNames")]}
            return self._breaks(value, names, (*path, "(name)"))
        if keyword == "items" and isinstance(value, dict | bool):
            return self._items(wide, narrow, path)
        if keyword == "anyOf":
            return self._any_of(value, narrow, path)
        return _same_beside(keyword, wide, narrow, path)

    def _additional(self, wide: dict[str, Any], narrow: Parts, path: Path) -> list[FieldError]:
        """Compare with the members that one part names besides, allows by pattern, or allows
        otherwise.
        """
        allowed = wide["additionalProperties"]
        patterns = wide.get("patternProperties", {})
        known = wide.get("properties", {})
        if patterns:
            _same_beside("patternProperties", wide, narrow, path)
            narrow = [part for part in narrow if _same(part.get("patternProperties"), patterns)]
        best: list[FieldError] | None = None
        for part in narrow or [{}]:
            named = part.get("properties", {}).items()
            others = {name: schema for name, schema in named if name not in known}
            if patterns and others:
                raise CannotCompare(f"{pointer(path)}: patternProperties beside new properties")
            if not patterns:
                found = part.get("patternProperties", {}).items()
                others |= {f"({pattern})": schema for pattern, schema in found}
            others["(any other)"] = part.get("additionalProperties", True)
            errors: list[FieldError] = []
            for name, schema in others.items():
                errors += self._breaks(allowed, schema, (*path, name))
            best = errors if best is None or len(errors) < len(best) else best
        return best or []

    def _items(self, wide: dict[str, Any], narrow: Parts, path: Path) -> list[FieldError]:
        if "prefixItems" in wide:
            _same_beside("prefixItems", wide, narrow, path)
        sources: list[Any] = []
        for part in narrow:
            items, prefix = part.get("items", True), part.get("prefixItems")
            if isinstance(items, list) or "additionalItems" in part:
                continue
            if prefix is None or _same(prefix, wide.get("prefixItems")):
                sources.append(items)
            elif len(narrow) == 1 and "prefixItems" not in wide:
                errors: list[FieldError] = []
                for one in (*prefix, items):
                    errors += self._breaks(wide["items"], one, (*path, "items"))
                return errors
        return self._breaks(wide["items"], {"allOf": sources}, (*path, "items"))

    def _any_of(self, branches: list[Any], narrow: Parts, path: Path) -> list[FieldError]:
        """Check that one branch allows everything; return the breaks of the nearest miss."""
        nearest: list[FieldError] | None = None
        undecided: CannotCompare | None = None
        for branch in branches:
            try:
                errors = self._breaks(branch, {"allOf": narrow}, path)
            except CannotCompare as error:
                undecided = error
                continue
            if not errors:
                return []
            if nearest is None or len(errors) < len(nearest):
                nearest = errors
        if undecided is not None:
            raise undecided
        return nearest or []


def _parts(owner: JsonSchema, schema: Any) -> Iterator[dict[str, Any]]:
    if schema is True:
        return
    if schema is False:
        yield {"not-anything": True}
        return
    rest = {name: value for name, value in schema.items() if name not in {"$ref", "allOf"}}
    if "$ref" in schema:
        yield from _parts(owner, referenced(owner.document, schema["$ref"]))
        if owner.draft in OLD_DRAFTS:
            return
    for part in schema.get("allOf", ()):
        yield from _parts(owner, part)
    if rest.keys() - ANNOTATIONS:
        yield rest


def _of_type(wanted: Any, narrow: Parts, path: Path) -> list[FieldError]:
    allowed = frozenset([wanted] if isinstance(wanted, str) else wanted)
    given = _types(narrow, integers=True)
    if "number" in allowed:
        allowed |= {"integer"}
    over = sorted(given - allowed)
    if "number" in over and "integer" in allowed and "integer" in given:
        over = [name for name in over if name != "integer"]
    return [
        FieldError(pointer(path), f"may be of type {name!r}, which is not allowed") for name in over
    ]


def _types(parts: Parts, *, integers: bool = False) -> frozenset[str]:
    """Return the types that all parts leave; `integers` tells integers from other numbers."""
    left = TYPES | {"integer"}
    for part in parts:
        named = part.get("type")
        if named is None:
            continue
        names = frozenset([named] if isinstance(named, str) else named)
        left &= names | ({"integer"} if "number" in names else frozenset())
    if integers:
        return left - {"integer"} if "number" in left else left
    return frozenset("number" if name == "integer" else name for name in left)


def _values(parts: Parts) -> list[Any] | None:
    """Return every value that can be allowed, if the parts list them."""
    for part in parts:
        if "const" in part:
            return [part["const"]]
        if "enum" in part:
            return list(part["enum"])
    return None


def _refers(part: Any) -> bool:
    """Return whether a part leads to other places of its definition, so that it cannot stand
    alone.
    """
    if isinstance(part, dict):
        return "$ref" in part or any(_refers(value) for value in part.values())
    return isinstance(part, list) and any(_refers(value) for value in part)


def _implies(part: dict[str, Any], keyword: str, value: Any) -> bool:
    if keyword == "uniqueItems":
        return not value or part.get("uniqueItems") is True
    if keyword == "multipleOf":
        step = part.get("multipleOf")
        if step is None:
            return False
        return (_number(step) / _number(value)).denominator == 1
    if keyword in {"minLength", "minItems", "minProperties"} and value == 0:
        return True
    wanted = _number(value)
    sign = 1 if keyword in LOWER else -1
    own = part.get(keyword)
    if own is not None and sign * _number(own) >= sign * wanted:
        return True
    twin = _TWINS.get(keyword)
    other = part.get(twin) if twin is not None else None
    if other is None:
        return False
    gap = sign * (_number(other) - wanted)
    return gap >= 0 if keyword in {"minimum", "maximum"} else gap > 0


def _number(value: Any) -> Fraction:
    try:
        return Fraction(str(value))
    except ValueError:
        raise CannotCompare(f"the number {value} is not compared") from None


_TWINS = {
    "minimum": "exclusiveMinimum",
    "exclusiveMinimum": "minimum",
    "maximum": "exclusiveMaximum",
    "exclusiveMaximum": "maximum",
}


def _of_property(name: str, narrow: Parts) -> list[Any]:
    """Return schemas of which at least one fits the property."""
    sure: list[Any] = []
    maybe: list[Any] = []
    for part in narrow:
        named = part.get("properties", {})
        if name in named:
            sure.append(named[name])
        elif "patternProperties" not in part:
            sure.append(part.get("additionalProperties", True))
        else:
            maybe = [*part["patternProperties"].values(), part.get("additionalProperties", True)]
    return [{"allOf": sure}] if sure or not maybe else maybe


def _each(narrow: Parts, keyword: str) -> list[Any]:
    return [part[keyword] for part in narrow if keyword in part]


_GROUPS = {
    keyword: group
    for group in (
        ("if", "then", "else"),
        ("contains", "minContains", "maxContains"),
        ("items", "additionalItems"),
    )
    for keyword in group
}
_NEVER_ALONE = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""Keywords that depend on all others beside them."""


def _same_beside(keyword: str, wide: dict[str, Any], narrow: Parts, path: Path) -> list[FieldError]:
    """Check that some part has the same keyword with its group; else raise CannotCompare."""
    group = _GROUPS.get(keyword, (keyword,))
    if keyword not in _NEVER_ALONE and not any(_refers(wide[one]) for one in group if one in wide):
        for part in narrow:
            if all(
                (one in wide) == (one in part) and _same(wide.get(one), part.get(one))
                for one in group
            ):
                return []
    where = pointer(path) or "the definition"
    raise CannotCompare(f"{where}: {keyword!r} differs, and is not compared")


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON; 1 is not true."""
    return _encode(one) == _encode(other)


_encode = msgspec.json.Encoder(order="deterministic").encode
