"""Columns of a table, in Arrow's types and in Iceberg's, and how a table may change.

A table only grows: columns are added, and types become wider if Iceberg allows it (int → long,
float → double, more digits of a decimal), in structs and lists field by field. Every other change
is a conflict, which the caller resolves by not writing the value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, PrimitiveType

from spark_exports.lake.errors import Conflict
from spark_exports.lake.layout import RESERVED_NAMES

FIELD_ID = b"PARQUET:field_id"
DOC = b"doc"
"""Key of a field's documentation in Arrow's metadata, as PyIceberg names it."""

_SMALL_INTS = frozenset({pa.int8(), pa.int16(), pa.uint8(), pa.uint16()})


def arrow_columns(schema: Schema, *, ids: bool = False) -> pa.Schema:
    """Return a table's columns as batches have them; `ids` adds Iceberg's field ids for Parquet."""
    return _Types(bare=False).columns(schema_to_pyarrow(schema, include_field_ids=ids))


def decoded_bound(kind: IcebergType, bound: bytes) -> Any:
    """Return a bound of a column as a value; manifests have it as bytes."""
    assert isinstance(kind, PrimitiveType)
    return from_bytes(kind, bound)


def field_paths(columns: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return the names from the top to each field, by field id, of columns with field ids."""
    return dict(_ids_and_paths(columns, ()))


def _ids_and_paths(
    fields: Iterable[pa.Field], path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in fields:
        at = (*path, field.name)
        yield (field.metadata or {}).get(FIELD_ID, b"").decode(), at
        yield from _ids_and_paths(_inside(field.type), at)


def _inside(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_list(kind):
        return [kind.value_field]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return []


def plain_types(columns: pa.Schema) -> pa.Schema:
    """Return the columns with one form of each type.

    They have string and list instead of their large variants, no dictionaries, no columns of type
    null (whose type is not known yet), and all are optional.
    """
    return _Types(bare=True).columns(columns)


def new_schema(columns: pa.Schema) -> Schema:
    """Return Iceberg's schema for a new table."""
    return pyarrow_to_schema(pa.schema(_with_ids(plain_types(columns), itertools.count(1))))


def _doc(field: pa.Field) -> dict[bytes, bytes]:
    """Return the metadata that names the member of a body, for a column with another name."""
    told = (field.metadata or {}).get(DOC)
    return {} if told is None else {DOC: told}


def _with_ids(fields: Iterable[pa.Field], ids: Iterator[int]) -> list[pa.Field]:
    numbered = [field.with_metadata({**_doc(field), FIELD_ID: str(next(ids))}) for field in fields]
    return [field.with_type(_with_ids_inside(field.type, ids)) for field in numbered]


def _with_ids_inside(kind: pa.DataType, ids: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_with_ids(kind, ids))
    if pa.types.is_list(kind):
        return pa.list_(*_with_ids([kind.value_field], ids))
    if pa.types.is_map(kind):
        return pa.map_(*_with_ids([kind.key_field, kind.item_field], ids))
    return kind


class _Types:
    """A mapping of Arrow's types to plain ones; `bare` keeps only name, type and doc of a field."""

    def __init__(self, *, bare: bool) -> None:
        self._bare = bare

    def columns(self, columns: pa.Schema) -> pa.Schema:
        return pa.schema(self._fields(columns))

    def _fields(self, fields: Iterable[pa.Field]) -> list[pa.Field]:
        typed = [(field, self._kind(field.type)) for field in fields]
        return [self._field(field, kind) for field, kind in typed if kind is not None]

    def _field(self, field: pa.Field, kind: pa.DataType) -> pa.Field:
        if self._bare:
            return pa.field(field.name, kind, metadata=_doc(field))
        return field.with_type(kind)

    def _kind(self, kind: pa.DataType) -> pa.DataType | None:
        if pa.types.is_null(kind):
            return None
        if pa.types.is_dictionary(kind):
            return self._kind(kind.value_type)
        if pa.types.is_struct(kind):
            fields = self._fields(kind)
            return pa.struct(fields) if fields else None
        if pa.types.is_map(kind):
            key, item = self._kind(kind.key_type), self._kind(kind.item_type)
            if key is None or item is None:
                return None
            return pa.map_(kind.key_field.with_type(key), self._field(kind.item_field, item))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
            element = self._kind(kind.value_type)
            return None if element is None else pa.list_(self._field(kind.value_field, element))
        return _plain_primitive(kind)


def _plain_primitive(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if kind in _SMALL_INTS:
        return pa.int32()
    if kind == pa.uint32():
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return kind


def grown(table: pa.Schema, wanted: pa.Schema) -> tuple[pa.Schema, list[Conflict]]:
    """Return the table's columns grown so that `wanted` fits, and the conflicts.

    A column of the table that is not wanted stays.
    """
    growth = _Growth()
    fields = growth.fields(tuple(table), tuple(plain_types(wanted)), ())
    growth.find_ambiguous(fields)
    return pa.schema(fields), growth.conflicts


class _Growth:
    def __init__(self) -> None:
        self.conflicts: list[Conflict] = []

    def fields(
        self, table: tuple[pa.Field, ...], wanted: tuple[pa.Field, ...], path: tuple[str, ...]
    ) -> list[pa.Field]:
        grown = {field.name: field for field in table}
        folded = {field.name.casefold(): field.name for field in table}
        for field in wanted:
            at = (*path, field.name)
            if field.name in grown:
                kind = self.kind(grown[field.name].type, field.type, at)
                grown[field.name] = grown[field.name].with_type(kind)
            elif reason := _bad_name(field.name, path, folded):
                self.conflicts.append(Conflict(at, reason))
            else:
                grown[field.name] = field.with_type(self._only_good_names(field.type, at))
                folded[field.name.casefold()] = field.name
        return list(grown.values())

    def kind(self, table: pa.DataType, wanted: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        if pa.types.is_struct(table) and pa.types.is_struct(wanted):
            return pa.struct(self.fields(tuple(table), tuple(wanted), path))
        if pa.types.is_list(table) and pa.types.is_list(wanted):
            element = self.kind(table.value_type, wanted.value_type, (*path, "element"))
            return pa.list_(table.value_field.with_type(element))
        if pa.types.is_map(table) and pa.types.is_map(wanted) and table.key_type == wanted.key_type:
            item = self.kind(table.item_type, wanted.item_type, (*path, "value"))
            return pa.map_(table.key_field, table.item_field.with_type(item))
        wider = _wider(table, wanted)
        if wider is None:
            self.conflicts.append(Conflict(path, f"the table has {table}, not {wanted}"))
            return table
        return wider

    def _only_good_names(self, kind: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        """Return the type of a new column; its conflicts are recorded."""
        if pa.types.is_struct(kind):
            return pa.struct(self.fields((), tuple(kind), path))
        if pa.types.is_list(kind):
            element = self._only_good_names(kind.value_type, (*path, "element"))
            return pa.list_(kind.value_field.with_type(element))
        if pa.types.is_map(kind):
            item = self._only_good_names(kind.item_type, (*path, "value"))
            return pa.map_(kind.key_field, kind.item_field.with_type(item))
        return kind

    def find_ambiguous(self, fields: list[pa.Field]) -> None:
        """Record a conflict for each path that two fields have.

        Iceberg finds a field by its names joined with dots, so a name with a dot may equal the path
        of a field inside of another.
        """
        seen: set[str] = set()
        for path in _paths(fields, ()):
            name = ".".join(path)
            if name in seen:
                self.conflicts.append(Conflict(path, "another field has the same path"))
            seen.add(name)


def _paths(fields: Iterable[pa.Field], path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    # Names with dots come last: of two fields with one path, they get the conflict.
    for field in sorted(fields, key=lambda field: "." in field.name):
        at = (*path, field.name)
        yield at
        yield from _paths_inside(field.type, at)


def _paths_inside(kind: pa.DataType, path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    if pa.types.is_struct(kind):
        yield from _paths(kind, path)
    elif pa.types.is_list(kind):
        yield (*path, "element")
        yield from _paths_inside(kind.value_type, (*path, "element"))
    elif pa.types.is_map(kind):
        yield from ((*path, "key"), (*path, "value"))
        yield from _paths_inside(kind.item_type, (*path, "value"))


def _bad_name(name: str, path: tuple[str, ...], folded: dict[str, str]) -> str | None:
    if not name:
        return "a column needs a name"
    if (other := folded.get(name.casefold())) is not None:
        return f"differs from {other} by case only"
    if not path and name.casefold() in RESERVED_NAMES:
        return "is the name of a partition"
    return None


def _wider(table: pa.DataType, wanted: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds both and that Iceberg lets the table become, or None."""
    if table == wanted:
        return table
    if pa.types.is_integer(table) and pa.types.is_integer(wanted):
        return max(table, wanted, key=lambda kind: kind.bit_width)
    if pa.types.is_floating(table) and pa.types.is_floating(wanted):
        return max(table, wanted, key=lambda kind: kind.bit_width)
    if pa.types.is_floating(table) and pa.types.is_integer(wanted):
        return pa.float64()
    if pa.types.is_decimal(table) and pa.types.is_decimal(wanted) and table.scale == wanted.scale:
        return pa.decimal128(max(table.precision, wanted.precision), table.scale)
    return None
