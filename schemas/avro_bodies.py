"""Checks of bodies against an Avro type, in the binary encoding (without a header) or in JSON.

No values are built; JSON pointers name the faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from edge.decode_errors import not_json
from edge.problem import FieldError
from schemas.avro import (
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
    branch_name,
)
from schemas.limits import MAX_ERRORS, MAX_VALUES, TooExpensive, pointer, shortened

INT = range(-(2**31), 2**31)
LONG = range(-(2**63), 2**63)
MAX_LATIN = 255
MAX_VALUES_HERE = 15_000
"""Values in a binary body that is checked on the event loop, at about a microsecond each."""
MAX_JSON_BYTES_HERE = 15_000
"""Bytes of a JSON body that is checked on the event loop; each of them may be a value."""


class _Wrong(Exception):
    """A fault of a body; `path` is filled in on the way up, innermost first."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.path: list[str | int] = []


class _Body:
    """A binary body: its bytes, the position of reading, and the number of values that are left."""

    __slots__ = ("at", "data", "left", "most")

    def __init__(self, data: bytes, most: int) -> None:
        self.data = data
        self.at = 0
        self.most = self.left = most

    def count(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            if self.most < MAX_VALUES:
                raise TooExpensive
            raise _Wrong(f"more than {MAX_VALUES} values")

    def skip(self, count: int) -> bytes:
        start, end = self.at, self.at + count
        if count < 0 or end > len(self.data):
            raise _Wrong("the body ends within this value")
        self.at = end
        return self.data[start:end]

    def long(self) -> int:
        data, at = self.data, self.at
        value = shift = 0
        while True:
            if at >= len(data):
                raise _Wrong("the body ends within this value")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise _Wrong("a number of more than 64 bits")
        if value >= 1 << 64:
            raise _Wrong("a number of more than 64 bits")
        self.at = at
        return value >> 1 ^ -(value & 1)


def check_binary(type_: Type, data: bytes, *, here: bool = False) -> list[FieldError]:
    """Return the first fault of a binary body, if there is one.

    With `here` it raises TooExpensive for a body with more values than the event loop has time for.
    """
    body = _Body(data, MAX_VALUES_HERE if here else MAX_VALUES)
    try:
        _read(type_, body)
    except _Wrong as wrong:
        return [FieldError(pointer(reversed(wrong.path)), str(wrong))]
    if body.at < len(data):
        return [FieldError("", f"{len(data) - body.at} bytes follow the value")]
    return []


def _read(type_: Type, body: _Body) -> None:
    body.left -= 1
    if body.left < 0:
        body.count(0)
    _READERS[type(type_)](type_, body)


def _read_primitive(type_: Primitive, body: _Body) -> None:
    match type_.name:
        case "long":
            body.long()
        case "int":
            if body.long() not in INT:
                raise _Wrong("an int has 32 bits")
        case "string":
            try:
                body.skip(body.long()).decode("utf-8")
            except UnicodeDecodeError as error:
                raise _Wrong("is not UTF-8") from error
        case "bytes":
            body.skip(body.long())
        case "boolean":
            if body.skip(1) not in (b"\0", b"\1"):
                raise _Wrong("a boolean is 0 or 1")
        case "float":
            body.skip(4)
        case "double":
            body.skip(8)


def _read_fixed(type_: Fixed, body: _Body) -> None:
    body.skip(type_.size)


def _read_enum(type_: Enum, body: _Body) -> None:
    if not 0 <= body.long() < len(type_.symbols):
        raise _Wrong(f"{type_.name} has {len(type_.symbols)} symbols, and not this one")


def _read_union(type_: Union, body: _Body) -> None:
    at = body.long()
    if not 0 <= at < len(type_.branches):
        raise _Wrong(f"the union has {len(type_.branches)} branches, and not this one")
    _read(type_.branches[at], body)


def _read_record(type_: Record, body: _Body) -> None:
    for field in type_.fields:
        try:
            _read(field.type, body)
        except _Wrong as wrong:
            wrong.path.append(field.name)
            raise


def _read_array(type_: Array, body: _Body) -> None:
    index = 0
    while count := _block(body):
        if type_.items.empty:
            body.count(count)
            continue
        for _ in range(count):
            try:
                _read(type_.items, body)
            except _Wrong as wrong:
                wrong.path.append(index)
                raise
            index += 1


def _read_map(type_: Map, body: _Body) -> None:
    while count := _block(body):
        for _ in range(count):
            try:
                key = body.skip(body.long()).decode("utf-8")
            except UnicodeDecodeError as error:
                raise _Wrong("a key is not UTF-8") from error
            try:
                _read(type_.values, body)
            except _Wrong as wrong:
                wrong.path.append(key)
                raise


def _block(body: _Body) -> int:
    count = body.long()
    if count < 0:
        count = -count
        body.long()  # The size of the block in bytes is only for readers that skip it.
    return count


_READERS: dict[type, Callable[[Any, _Body], None]] = {
    Primitive: _read_primitive,
    Fixed: _read_fixed,
    Enum: _read_enum,
    Union: _read_union,
    Record: _read_record,
    Array: _read_array,
    Map: _read_map,
}


def check_json(type_: Type, data: bytes, *, here: bool = False) -> list[FieldError]:
    """Return up to `MAX_ERRORS` faults of a JSON body; `here` is as for `check_binary`."""
    if here and len(data) > MAX_JSON_BYTES_HERE:
        raise TooExpensive
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [FieldError("", shortened(f"is not JSON: {not_json(error)}"))]
    errors: list[FieldError] = []
    _match(type_, value, (), errors)
    return errors[:MAX_ERRORS]


def _match(type_: Type, value: Any, path: tuple[str | int, ...], errors: list[FieldError]) -> None:
    if len(errors) >= MAX_ERRORS:
        return
    match type_:
        case Primitive(name):
            if not _fits(name, value):
                errors.append(FieldError(pointer(path), f"is not of type {name!r}"))
        case Enum():
            if not isinstance(value, str) or value not in type_.known:
                errors.append(FieldError(pointer(path), f"is no symbol of {type_.name}"))
        case Fixed():
            if not _fits("bytes", value) or len(value) != type_.size:
                detail = f"is no string of {type_.size} bytes"
                errors.append(FieldError(pointer(path), detail))
        case Array(inner) if isinstance(value, list):
            for index, one in enumerate(value):
                _match(inner, one, (*path, index), errors)
        case Map(inner) if isinstance(value, dict):
            for key, one in value.items():
                _match(inner, one, (*path, key), errors)
        case Record() if isinstance(value, dict):
            _match_record(type_, value, path, errors)
        case Union():
            _match_union(type_, value, path, errors)
        case Array() | Map() | Record():
            kind = "array" if isinstance(type_, Array) else "object"
            errors.append(FieldError(pointer(path), f"is not an {kind}"))


def _match_record(
    type_: Record, value: dict[str, Any], path: tuple[str | int, ...], errors: list[FieldError]
) -> None:
    for field in type_.fields:
        if field.name in value:
            _match(field.type, value[field.name], (*path, field.name), errors)
        else:
            errors.append(FieldError(pointer((*path, field.name)), "is required"))
    names = {field.name for field in type_.fields}
    for name in value:
        if name not in names:
            errors.append(FieldError(pointer((*path, name)), f"is no field of {type_.name}"))


def _match_union(
    type_: Union, value: Any, path: tuple[str | int, ...], errors: list[FieldError]
) -> None:
    name = "null" if value is None else None
    if isinstance(value, dict) and len(value) == 1:
        (name,) = value
    branch = None if name is None else type_.by_name.get(name)
    if name is not None and branch is not None:
        if value is not None:
            _match(branch, value[name], (*path, name), errors)
        return
    named = ", ".join(map(branch_name, type_.branches))
    detail = shortened(f'must be {{"<branch>": value}} (null alone), of {named}')
    errors.append(FieldError(pointer(path), detail))


def _fits(name: str, value: Any) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return type(value) is int and value in INT
        case "long":
            return type(value) is int and value in LONG
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bytes":
            return isinstance(value, str) and all(ord(char) <= MAX_LATIN for char in value)
    return isinstance(value, str)
