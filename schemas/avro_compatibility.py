"""Compares Avro types: whether a reader's type can read a writer's values, by the specification.

Every branch of a writer's union and every symbol of its enum must be readable, also one that no
message has used yet.
"""

from __future__ import annotations

from edge.problem import FieldError
from schemas.avro import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
    branch_name,
)
from schemas.limits import pointer

PROMOTIONS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_Path = tuple[str | int, ...]
_Known = dict[tuple[int, int], bool]


def unreadable(reader: Type, writer: Type) -> list[FieldError]:
    """Return the faults of the reader, by JSON pointer into the writer's values; [] if it reads
    all.
    """
    errors: list[FieldError] = []
    _resolve(reader, writer, (), errors, {})
    return errors


def _resolve(
    reader: Type, writer: Type, path: _Path, errors: list[FieldError], known: _Known
) -> None:
    """Compare a pair of types once, because named types may be used any number of times."""
    pair = (id(reader), id(writer))
    if pair in known:
        if not known[pair]:
            errors.append(_error(path, "cannot be read, as elsewhere"))
        return
    before = len(errors)
    _compare(reader, writer, path, errors, known)
    known[pair] = len(errors) == before


def _compare(
    reader: Type, writer: Type, path: _Path, errors: list[FieldError], known: _Known
) -> None:
    if isinstance(writer, Union):
        for branch in writer.branches:
            _resolve(reader, branch, path, errors, known)
        return
    if isinstance(reader, Union):
        for branch in reader.branches:
            attempt: list[FieldError] = []
            _resolve(branch, writer, path, attempt, known)
            if not attempt:
                return
        errors.append(_error(path, f"no branch of the union reads {branch_name(writer)!r}"))
        return
    match reader, writer:
        case Primitive(wanted), Primitive(written):
            if wanted != written and wanted not in PROMOTIONS.get(written, ()):
                errors.append(_error(path, f"{written!r} cannot be read as {wanted!r}"))
        case Array(wanted_type), Array(written_type):
            _resolve(wanted_type, written_type, (*path, "items"), errors, known)
        case Map(wanted_type), Map(written_type):
            _resolve(wanted_type, written_type, (*path, "values"), errors, known)
        case Record(), Record():
            if _same_name(reader, writer, path, errors):
                _resolve_record(reader, writer, path, errors, known)
        case Enum(), Enum():
            missing = [one for one in writer.symbols if one not in reader.symbols]
            if _same_name(reader, writer, path, errors) and missing and reader.default is None:
                errors.append(_error(path, f"the symbol {missing[0]!r} cannot be read"))
        case Fixed(), Fixed():
            if _same_name(reader, writer, path, errors) and reader.size != writer.size:
                errors.append(_error(path, f"{writer.size} bytes, not {reader.size}"))
        case _:
            detail = f"{branch_name(writer)!r} cannot be read as {branch_name(reader)!r}"
            errors.append(_error(path, detail))


def _resolve_record(
    reader: Record, writer: Record, path: _Path, errors: list[FieldError], known: _Known
) -> None:
    written = {field.name: field for field in writer.fields}
    for field in reader.fields:
        source = _source(field, written)
        if source is not None:
            _resolve(field.type, source.type, (*path, field.name), errors, known)
        elif not field.has_default:
            detail = "is read, not written, and has no default"
            errors.append(_error((*path, field.name), detail))


def _source(field: Field, written: dict[str, Field]) -> Field | None:
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def _same_name(
    reader: Record | Enum | Fixed,
    writer: Record | Enum | Fixed,
    path: _Path,
    errors: list[FieldError],
) -> bool:
    """Compare names by their last part, or by a full alias."""
    same = _last(reader.name) == _last(writer.name) or writer.name in reader.aliases
    if not same:
        errors.append(_error(path, f"{writer.name!r} cannot be read as {reader.name!r}"))
    return same


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _error(path: _Path, detail: str) -> FieldError:
    return FieldError(pointer(path), detail)
