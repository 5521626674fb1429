"""Writes the classes of the contract as JSON Schema (2020-12)."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from openapi.contract import Answer, Body, OpenAnswer, OpenBody

Schema = dict[str, Any]
PREFIX = "#/components/schemas/"
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    type(None): {"type": "null"},
    Any: {},
    object: {"type": "object"},
}
_LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


class Schemas:
    """The named schemas that were met; each class is described once and referred to by name."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self.classes: dict[str, type[msgspec.Struct]] = {}
        """The class of each named schema."""

    def of(self, kind: Any) -> Schema:
        """Return the schema of an annotation; classes are put among the named ones."""
        if get_origin(kind) is Annotated:
            inner, *notes = get_args(kind)
            return _limited(
                self.of(inner), [note for note in notes if isinstance(note, msgspec.Meta)]
            )
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._reference(kind)
        try:
            return dict(_PLAIN[kind])
        except (KeyError, TypeError):
            return self._composed(kind)

    def _composed(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"type": _literal_type(arguments), "enum": list(arguments)}
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is set:
            return {"type": "array", "items": self.of(arguments[0]), "uniqueItems": True}
        if origin is dict:
            return self._map(*arguments)
        if origin in (Union, types.UnionType):
            kinds = without_int(each for each in arguments if each is not UnsetType)
            return _alternatives([self.of(each) for each in kinds])
        raise TypeError(f"the contract has no schema for {kind!r}")

    def _map(self, key: Any, value: Any) -> Schema:
        schema: Schema = {"type": "object"}
        names = self.of(key)
        names.pop("type")
        if names:
            schema["propertyNames"] = names
        if value is not Any:
            schema["additionalProperties"] = self.of(value)
        return schema

    def _reference(self, kind: type[msgspec.Struct]) -> Schema:
        name = kind.__name__
        known = self.classes.setdefault(name, kind)
        if known is not kind:
            raise TypeError(f"{known.__module__} and {kind.__module__} both have a {name}")
        if name not in self.named:
            self.named[name] = {}
            self.named[name] = self._object(kind)
        return {"$ref": PREFIX + name}

    def _object(self, kind: type[msgspec.Struct]) -> Schema:
        hints = get_type_hints(kind, include_extras=True)
        sentences = prose(kind)
        answer = issubclass(kind, (Answer, OpenAnswer)) or not issubclass(kind, Body)
        properties: dict[str, Schema] = {}
        required = []
        for field in msgspec.structs.fields(kind):
            name = field.encode_name
            properties[name] = self._field(hints[field.name], sentences.get(field.name), field)
            fixed = field.name in getattr(kind, "FIXED", ())
            if field.required or (answer and (fixed or field.default is not UNSET)):
                required.append(name)
            if answer:
                properties[name].pop("default", None)
        schema: Schema = {"type": "object"}
        if kind.__doc__ is not None:
            schema["description"] = one_line(kind.__doc__)
        schema |= _chosen(kind, properties, required)
        return schema | getattr(kind, "EXTRA", {})

    def _field(self, kind: Any, sentence: str | None, field: Any) -> Schema:
        schema = self.of(kind)
        if sentence is not None:
            schema = {"description": sentence} | {
                key: value for key, value in schema.items() if key != "description"
            }
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if isinstance(default, msgspec.Struct):
            return schema  # its own fields say their defaults
        if default not in (msgspec.NODEFAULT, UNSET, None):
            schema["default"] = _plain(default)
        return schema


def _chosen(kind: type[msgspec.Struct], properties: Schema, required: list[str]) -> Schema:
    """Return the members of an object, or several objects where it has exactly one of some."""
    # An answer that is made of an open body has no further fields.
    is_open = issubclass(kind, (OpenAnswer, OpenBody)) and not issubclass(kind, Answer)
    closed: Schema = {} if is_open else {"additionalProperties": False}
    if not issubclass(kind, Body) or not kind.EXACTLY_ONE:
        schema: Schema = {"properties": properties} | closed
        if required:
            schema = {"required": required} | schema
        if issubclass(kind, Body) and kind.AT_LEAST_ONE:
            schema["anyOf"] = [{"required": [name]} for name in kind.AT_LEAST_ONE]
        return schema
    return {
        "oneOf": [
            {
                "type": "object",
                "required": [name, *required],
                "properties": {
                    each: schema
                    for each, schema in properties.items()
                    if each == name or each not in kind.EXACTLY_ONE
                },
            }
            | closed
            for name in kind.EXACTLY_ONE
        ]
    }


def _literal_type(values: Iterable[Any]) -> str:
    (kind,) = {type(value) for value in values}
    return str(_PLAIN[kind]["type"])


def without_int(kinds: Iterable[Any]) -> list[Any]:
    """Return the alternatives without int where float is one, because a number may be whole. A
    field that is both is written as it was given: `2`, or `2.5`."""
    found = list(kinds)
    return [each for each in found if each is not int or float not in found]


def _alternatives(schemas: list[Schema]) -> Schema:
    """Return one schema for all of them: a list of types where they are that simple."""
    null = {"type": "null"} in schemas
    others = [each for each in schemas if each != {"type": "null"}]
    if len(others) == 1 and not null:
        return others[0]
    if all(set(each) == {"type"} for each in others):
        names = [each["type"] for each in others] + ["null"] * null
        return {"type": names}
    if null and len(others) == 1 and isinstance(others[0].get("type"), str):
        (only,) = others
        only = only | {"type": [only["type"], "null"]}
        return only | ({"enum": [*only["enum"], None]} if "enum" in only else {})
    return {"anyOf": others + [{"type": "null"}] * null}


def _limited(schema: Schema, notes: list[msgspec.Meta]) -> Schema:
    for note in notes:
        kind = schema.get("type", "")
        for ours, theirs in _LIMITS.items():
            if (limit := getattr(note, ours)) is not None:
                schema[theirs] = limit
        if isinstance(kind, str) and kind in _LENGTHS:
            for limit, name in zip((note.min_length, note.max_length), _LENGTHS[kind], strict=True):
                if limit is not None:
                    schema[name] = limit
        if note.pattern is not None:
            schema["pattern"] = note.pattern.replace(r"\Z", "$")
        if note.description is not None:
            schema = {"description": note.description} | schema
        schema |= note.extra_json_schema or {}
    return schema


def _plain(value: Any) -> Any:
    """Return a default as JSON has it, whole numbers without a fraction."""
    built: Any = msgspec.to_builtins(value)
    return int(built) if isinstance(built, float) and built.is_integer() else built


def prose(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the description of each field of a class: the line below it, here or in a base, else
    the sentence of the class that describes this one, else that of its type."""
    if issubclass(kind, Body) and kind.PATCHED is not None:
        return prose(kind.PATCHED)
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            other = vars(each).get("DESCRIBED_BY")
            found |= {} if other is None else prose(other)
            found |= _module_prose(each.__module__).get(each.__qualname__, {})
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: sentence
        for name in kind.__struct_fields__
        if (sentence := found.get(name) or _of_type(hints[name]))
    }


def _of_type(annotation: Any) -> str | None:
    """Return the description that comes with a type, or with one of its alternatives."""
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        said = (each.description for each in notes if isinstance(each, msgspec.Meta))
        return next(filter(None, said), None) or _of_type(inner)
    if get_origin(annotation) in (Union, types.UnionType):
        return next(filter(None, map(_of_type, get_args(annotation))), None)
    return None


@cache
def _module_prose(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: dict(_described(node.body))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _described(body: list[ast.stmt]) -> Iterable[tuple[str, str]]:
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, one_line(text.value.value)


def one_line(text: str) -> str:
    return inspect.cleandoc(text).strip().replace("\n", " ")
