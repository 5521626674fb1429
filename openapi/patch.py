"""Makes the body of a PATCH from the body of a PUT (RFC 7396)."""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from openapi.contract import Body

MERGED = (
    "Changes to what there is (RFC 7396). A member that is not named stays, and so does each "
    "member of an object that is not named. Null is null where a member may be null, and else its "
    "default; in a map it takes an entry away."
)


@cache
def patch_of(put: type[Body]) -> type[Body]:
    """Return the class of patches of a put: each field may be left out, objects are patches too,
    and null stands for the default of a field. A fixed field needs one that is a value."""
    return _made(put, MERGED + _fixed(put.FIXED))


@cache
def _part(kind: type[Body]) -> type[Body]:
    """Return the class of patches of an object within a put."""
    return _made(kind, f"Changes to {kind.__name__}, merged member by member.")


def _made(put: type[Body], description: str) -> type[Body]:
    hints = get_type_hints(put, include_extras=True)
    fields = [
        (
            field.name,
            _type(hints[field.name], null=_may_be_null(put, field)),
            msgspec.field(default=UNSET, name=field.encode_name),
        )
        for field in msgspec.structs.fields(put)
    ]
    name = put.__name__.removesuffix("Put") + "Patch"
    about = {"__doc__": description, "PATCHED": put}
    patch = msgspec.defstruct(
        name, fields, bases=(Body,), module=put.__module__, namespace=about, kw_only=True
    )
    assert issubclass(patch, Body)
    return patch


def _may_be_null(put: type[Body], field: msgspec.structs.FieldInfo) -> bool:
    """Return whether null stands for the default of a field."""
    return not (field.required or (field.name in put.FIXED and field.default is UNSET))


def _type(kind: Any, *, null: bool) -> Any:
    if kind is Any:
        return Any
    return _merged(kind) | UnsetType | NoneType if null else _merged(kind) | UnsetType


def _merged(kind: Any) -> Any:
    """Return a type with objects as their patches, and maps whose entries null takes away."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(_merged(arguments[0]), *arguments[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, map(_merged, arguments))
    if origin is dict:
        key, value = arguments
        return dict.__class_getitem__((key, value | None))
    if isinstance(kind, type) and issubclass(kind, Body) and not kind.EXACTLY_ONE:
        return _part(kind)
    return kind


def _fixed(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    *others, last = (f"`{name}`" for name in names)
    listed = f"{', '.join(others)} and {last}" if others else last
    return f" The value of {listed} cannot be changed."
