"""Merges the body of a PATCH into what there is (RFC 7396).

A member that is not named stays. An object is merged member by member, at every depth, and so is a
map such as `labels`, from which null takes an entry away. Null sets a member to null where it may
be null, and else to its default. Other values are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from edge.bodies import converted
from edge.decode_errors import alternatives
from openapi.contract import Body, fields_of

P = TypeVar("P", bound=Body)


def merged_into(patch: Body, present: P) -> P:
    """Return the put that a patch (`openapi.patch`) asks for of what there is. Raise a 422 Problem
    that names the field."""
    kind = type(present)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    named = {name: value for name in fields if (value := getattr(patch, name)) is not UNSET}
    types, defaults = _types(kind), _defaults(kind)
    body: dict[str, Any] = {}
    for field, value in named.items():
        name = fields[field].encode_name
        if value is not None or _nullable(types[name]):
            before = getattr(present, field)
            before = None if before is UNSET else msgspec.to_builtins(before)
            body[name] = _value(types[name], before, msgspec.to_builtins(value))
        elif name in defaults:
            body[name] = msgspec.to_builtins(defaults[name]())
    part = converted(body, _partial(kind))
    return msgspec.structs.replace(present, **{name: getattr(part, name) for name in named})


def put_of(shown: msgspec.Struct, put: type[P]) -> P:
    """Return the put that asks for the things that an answer shows."""
    return put(**fields_of(put, shown))


def create_of(body: Body, create: type[P], name: str) -> P:
    """Return the body that creates the thing of a put, under the name of the path."""
    given = {field: getattr(body, field) for field in body.__struct_fields__}
    kept = {field: value for field, value in given.items() if value is not UNSET}
    return create(**kept | {"name": name})


@cache
def _partial(kind: type[Body]) -> type[msgspec.Struct]:
    """Return a class that has each field of a put, and requires none."""
    fields = [
        (each.name, each.type | UnsetType, msgspec.field(default=UNSET, name=each.encode_name))
        for each in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(f"Partial{kind.__name__}", fields, kw_only=True)


def _value(type_: Any, before: Any, value: Any) -> Any:
    """Return the new value of a member that is given `value`."""
    kind = _object_kind(type_)
    if kind is None or not isinstance(value, dict):
        return value
    result = dict(before) if isinstance(before, Mapping) else {}
    types = _types(kind) if kind is not dict else {}
    for name, inner in value.items():
        if inner is None and _goes(kind, types, name):
            result.pop(name, None)
        else:
            result[name] = _value(types.get(name, Any), result.get(name), inner)
    return result


def _goes(kind: type, types: Mapping[str, Any], name: str) -> bool:
    """Return whether null takes a member away, which gives it its default. An unknown member stays,
    and is refused."""
    return kind is dict or (name in types and not _nullable(types[name]))


def _types(kind: type) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def _defaults(kind: type[msgspec.Struct]) -> dict[str, Callable[[], Any]]:
    """Return the maker of the default of each member that has one."""
    found: dict[str, Callable[[], Any]] = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not NODEFAULT:
            found[field.encode_name] = field.default_factory
        elif field.default is not NODEFAULT and field.default is not UNSET:
            found[field.encode_name] = partial(_same, field.default)
    return found


def _same(value: Any) -> Any:
    return value


def _nullable(type_: Any) -> bool:
    return any(one is NoneType or one is Any for one in alternatives(type_))


def _object_kind(type_: Any) -> type | None:
    """Return the class of a struct, `dict` for a map, and None for a value that is replaced."""
    for one in alternatives(type_):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return None if getattr(one, "EXACTLY_ONE", ()) else one
        if get_origin(one) is dict:
            return dict
    return None
