"""Columns of bodies, and how they grow by the values that a run has seen.

A column keeps its type for good; only structs get new fields, also those in lists. The type of a
new column is chosen by all values that the run saw under its name, so the order of messages and
tasks does not matter. Values that a column does not hold exactly are in `rescued`, so nothing is
lost in any order of runs.
"""

from __future__ import annotations

import pyarrow as pa

from spark_exports.driver.bodies.names import Names, column, member_of
from spark_exports.driver.bodies.shape import Shape, decimal_digits
from spark_exports.lake.envelope import ENVELOPE, RESCUED
from spark_exports.lake.layout import RESERVED_NAMES

MAX_FIELDS = 2_000
"""Fields of a table at most, with nested ones; members beyond these get no columns."""
RESERVED = frozenset(name.casefold() for name in (*ENVELOPE.names, RESCUED, *RESERVED_NAMES))
KINDS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "double": pa.float64(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "binary": pa.binary(),
}
"""Types by their names in `columns` of an export.

A new column whose values are of several kinds gets the first of: string, struct, list, decimal, and
then the kinds in this order.
"""


class UnknownType(ValueError):
    """A type in `columns` of an export does not exist."""


def kind_of(name: str) -> pa.DataType:
    """Return a type by its name in an export's `columns`. Raises UnknownType."""
    if name in KINDS:
        return KINDS[name]
    digits = decimal_digits(name.replace(" ", ""))
    if digits is None or not 1 <= digits[0] <= 38 or digits[1] > digits[0]:
        raise UnknownType(f"{name!r} is no type of a column")
    return pa.decimal128(*digits)


def with_pinned(columns: pa.Schema, pinned: dict[str, str]) -> pa.Schema:
    """Return the columns of a table and those whose types are configured.

    A column that the table has already keeps its type. Raises UnknownType.
    """
    kinds = {member: kind_of(name) for member, name in sorted(pinned.items())}
    fields = list(columns)
    names = Names((field.name for field in fields), RESERVED)
    known = {member_of(field) for field in fields}
    for member, kind in kinds.items():
        if member not in known:
            fields.append(column(names.name(member), member, kind))
    return pa.schema(fields)


def grown(columns: pa.Schema, shape: Shape) -> pa.Schema:
    """Return the columns in their order, followed by those that `shape` needs, by the alphabet."""
    room = _Room(MAX_FIELDS - sum(map(_size, columns)))
    return pa.schema(_fields(tuple(columns), shape.members or {}, room, RESERVED))


def size(columns: pa.Schema) -> int:
    """Return the number of fields, with nested ones."""
    return sum(map(_size, columns))


class _Room:
    def __init__(self, left: int) -> None:
        self.left = left

    def takes(self, kind: pa.DataType) -> bool:
        count = 1 + _inner_size(kind)
        if count > self.left:
            return False
        self.left -= count
        return True


def _fields(
    fields: tuple[pa.Field, ...],
    members: dict[str, Shape],
    room: _Room,
    reserved: frozenset[str] = frozenset(),
) -> list[pa.Field]:
    grown = []
    known = set()
    for field in fields:
        member = member_of(field)
        known.add(member)
        seen = members.get(member)
        grown.append(field if seen is None else field.with_type(_grown(field.type, seen, room)))
    names = Names((field.name for field in fields), reserved)
    for member in sorted(members.keys() - known):
        kind = _kind(members[member])
        if kind is not None and room.takes(kind):
            grown.append(column(names.name(member), member, kind))
    return grown


def _grown(kind: pa.DataType, shape: Shape, room: _Room) -> pa.DataType:
    if pa.types.is_struct(kind) and shape.members is not None:
        return pa.struct(_fields(tuple(kind), shape.members, room))
    if pa.types.is_list(kind) and shape.element is not None:
        return pa.list_(kind.value_field.with_type(_grown(kind.value_type, shape.element, room)))
    return kind


def _kind(shape: Shape) -> pa.DataType | None:
    """Return the type for a shape; None if all of its values are empty."""
    if "string" in shape.kinds:
        return KINDS["string"]
    if shape.members is not None:
        fields = _fields((), shape.members, _Room(MAX_FIELDS))
        if fields:
            return pa.struct(fields)
    if shape.element is not None and (element := _kind(shape.element)) is not None:
        return pa.list_(pa.field("element", element))
    decimals = [digits for kind in shape.kinds if (digits := decimal_digits(kind))]
    if decimals:
        return pa.decimal128(*max(decimals, key=lambda digits: digits[1]))
    return next((kind for name, kind in KINDS.items() if name in shape.kinds), None)


def _size(field: pa.Field) -> int:
    return 1 + _inner_size(field.type)


def _inner_size(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(map(_size, kind))
    if pa.types.is_list(kind):
        return _inner_size(kind.value_type)
    return 0
