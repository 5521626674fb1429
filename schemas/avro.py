"""Avro definitions (specification 1.12) as a tree of types.

Logical types count as their base types.

Names are replaced by the types that they name, so the tree has no names to look up. A type that
contains itself is refused: a small body could then make a check go arbitrarily deep. A type is
`empty` if its values take no bytes of a binary body, so that a body may hold any number of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from schemas.limits import MAX_DEPTH, bad, read_definition

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_FIXED_BYTES = 1024 * 1024
BROKEN = (
    "is no Avro schema: a default that does not fit its field, a name that is given twice, or a "
    "logical type whose precision or scale does not fit"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    name: str

    @property
    def empty(self) -> bool:
        return self.name == "null"


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    items: Type
    empty: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    values: Type
    empty: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    branches: tuple[Type, ...]
    by_name: Mapping[str, Type]
    empty: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    name: str
    aliases: tuple[str, ...]
    size: int

    @property
    def empty(self) -> bool:
        return self.size == 0


@dataclass(frozen=True, slots=True, eq=False)
class Enum:
    name: str
    aliases: tuple[str, ...]
    symbols: tuple[str, ...]
    known: frozenset[str]
    default: str | None
    empty: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    name: str
    aliases: tuple[str, ...]
    type: Type
    has_default: bool


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    name: str
    aliases: tuple[str, ...]
    fields: tuple[Field, ...]
    empty: bool


Named = Fixed | Enum | Record
Type = Primitive | Array | Map | Union | Named


def parse(text: str) -> Type:
    """Return the tree of a definition; raises BadDefinition, which names the place by JSON
    pointer.
    """
    value = read_definition(text)
    tree = _Parser().type_of(value, (), "")
    try:
        parse_schema(value, named_schemas={})  # type: ignore[arg-type,unused-ignore]
    except UnknownType as error:
        raise bad((), f"is no Avro schema: there is no type {error.name!r}") from error
    except (SchemaParseException, KeyError, TypeError, ValueError) as error:
        raise bad((), BROKEN) from error
    return tree


def branch_name(type_: Type) -> str:
    """Return the name by which a union's JSON names a branch."""
    match type_:
        case Primitive(name) | Fixed(name) | Enum(name) | Record(name):
            return name
        case Array():
            return "array"
        case Map():
            return "map"
    raise AssertionError("a union is no branch")


def inner_types(type_: Type) -> Iterator[Type]:
    match type_:
        case Array(inner) | Map(inner):
            yield inner
        case Union(branches):
            yield from branches
        case Record():
            yield from (field.type for field in type_.fields)


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Named] = {}
        self._open: set[str] = set()
        self._heights: dict[int, int] = {}
        self._kept: list[Type] = []

    def type_of(self, value: object, path: Path, namespace: str) -> Type:
        found = self._type_of(value, path, namespace)
        if id(found) not in self._heights:
            inner = max((self._heights[id(one)] for one in inner_types(found)), default=0)
            self._heights[id(found)] = inner + 1
            self._kept.append(found)
            if inner + 1 > MAX_DEPTH:
                raise bad(path, f"types are nested more than {MAX_DEPTH} deep")
        return found

    def _type_of(self, value: object, path: Path, namespace: str) -> Type:
        if isinstance(value, str):
            return self._reference(value, path, namespace)
        if isinstance(value, list):
            return self._union(value, path, namespace)
        if not isinstance(value, dict):
            raise bad(path, "a type is a string, an array or an object")
        kind = value.get("type")
        if isinstance(kind, dict | list):
            return self.type_of(kind, (*path, "type"), namespace)
        match kind:
            case "array":
                return Array(self._inner(value, "items", path, namespace))
            case "map":
                return Map(self._inner(value, "values", path, namespace))
            case "record" | "error":
                return self._record(value, path, namespace)
            case "enum":
                return self._enum(value, path, namespace)
            case "fixed":
                return self._fixed(value, path, namespace)
            case str():
                return self._reference(kind, (*path, "type"), namespace)
        raise bad(path, "needs a type")

    def _inner(self, value: Mapping[str, Any], name: str, path: Path, namespace: str) -> Type:
        if name not in value:
            raise bad(path, f"needs {name}")
        return self.type_of(value[name], (*path, name), namespace)

    def _reference(self, name: str, path: Path, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self._open:
            raise bad(path, f"{name!r} contains itself; types that do are not supported")
        found = self._named.get(full)
        if found is None:
            raise bad(path, f"{name[:80]!r} is no type that was defined before")
        return found

    def _union(self, value: list[Any], path: Path, namespace: str) -> Type:
        if not value:
            raise bad(path, "a union has at least one branch")
        branches = []
        names: set[str] = set()
        for index, one in enumerate(value):
            branch = self.type_of(one, (*path, index), namespace)
            if isinstance(branch, Union):
                raise bad((*path, index), "a union is no branch of a union")
            if branch_name(branch) in names:
                raise bad((*path, index), f"a second branch {branch_name(branch)!r}")
            names.add(branch_name(branch))
            branches.append(branch)
        return Union(tuple(branches), {branch_name(branch): branch for branch in branches})

    def _record(self, value: Mapping[str, Any], path: Path, namespace: str) -> Type:
        name, namespace = self._name(value, path, namespace)
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise bad(path, "needs fields, an array")
        self._open.add(name)
        found: dict[str, Field] = {}
        for index, one in enumerate(fields):
            at = (*path, "fields", index)
            if not isinstance(one, dict) or not _is_name(one.get("name")):
                raise bad(at, "a field has a name and a type")
            if one["name"] in found:
                raise bad(at, f"a second field {one['name']!r}")
            type_ = self._inner(one, "type", at, namespace)
            aliases = _strings(one, "aliases", at)
            found[one["name"]] = Field(one["name"], aliases, type_, "default" in one)
        self._open.discard(name)
        fields = tuple(found.values())
        empty = all(field.type.empty for field in fields)
        record = Record(name, self._aliases(value, path, namespace), fields, empty)
        return self._keep(record, path)

    def _enum(self, value: Mapping[str, Any], path: Path, namespace: str) -> Type:
        name, namespace = self._name(value, path, namespace)
        symbols = _strings(value, "symbols", path)
        if not symbols or len(set(symbols)) < len(symbols) or not all(map(_is_name, symbols)):
            raise bad(path, "needs symbols: names, each once")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise bad((*path, "default"), "is not among the symbols")
        aliases = self._aliases(value, path, namespace)
        return self._keep(Enum(name, aliases, symbols, frozenset(symbols), default), path)

    def _fixed(self, value: Mapping[str, Any], path: Path, namespace: str) -> Type:
        name, namespace = self._name(value, path, namespace)
        size = value.get("size")
        if type(size) is not int or not 0 <= size <= MAX_FIXED_BYTES:
            raise bad(path, f"needs a size from 0 to {MAX_FIXED_BYTES}")
        return self._keep(Fixed(name, self._aliases(value, path, namespace), size), path)

    def _name(self, value: Mapping[str, Any], path: Path, namespace: str) -> tuple[str, str]:
        """Return the full name, and the namespace of the types inside."""
        name, own = value.get("name"), value.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise bad(path, "needs a name")
        full = name if "." in name or not own else f"{own}.{name}"
        if not all(map(_is_name, full.split("."))) or full in PRIMITIVES:
            raise bad((*path, "name"), "a name is letters, digits and '_', no digit first")
        if full in self._named or full in self._open:
            raise bad((*path, "name"), f"{full!r} is defined twice")
        return full, full.rpartition(".")[0]

    def _aliases(self, value: Mapping[str, Any], path: Path, namespace: str) -> tuple[str, ...]:
        return tuple(
            alias if "." in alias or not namespace else f"{namespace}.{alias}"
            for alias in _strings(value, "aliases", path)
        )

    def _keep(self, type_: Named, path: Path) -> Named:
        self._named[type_.name] = type_
        return type_


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _strings(value: Mapping[str, Any], name: str, path: Path) -> tuple[str, ...]:
    found = value.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise bad((*path, name), "an array of strings")
    return tuple(found)
