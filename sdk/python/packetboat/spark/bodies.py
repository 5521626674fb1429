"""Bodies as values of a struct column: JSON, and Avro of topics that have such a schema.

A member that a body lacks is null, and so is a value of another kind than the column's. A body that
is no object, or cannot be decoded at all, is null as a whole: `data` still has it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa

from packetboat.spark.avro import AVRO_TYPES, AvroSchemas
from packetboat.spark.errors import InvalidOption

Value = Any
_Convert = Callable[[Any], Value]
_JSON_TYPES = ("", "application/json")


class Bodies:
    """Decodes the bodies of a topic; `avro`: by its schema."""

    def __init__(self, avro: AvroSchemas | None) -> None:
        self._avro = avro

    def decoded(self, batch: pa.RecordBatch, kind: pa.StructType) -> pa.Array:
        """Return a value of `kind` for each message."""
        convert = converter(kind)
        schemas = self._avro
        rows = zip(
            batch.column("data"),
            batch.column("content_type"),
            batch.column("attributes") if schemas else [None] * batch.num_rows,
            strict=True,
        )
        values = [
            convert(_decode(data.as_buffer(), content_type.as_py(), attributes, schemas))
            for data, content_type, attributes in rows
        ]
        return pa.array(values, kind)


def _decode(
    data: Any, content_type: str | None, attributes: Any, schemas: AvroSchemas | None
) -> object:
    """Return the decoded body; None if it has no format that we read."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if schemas is not None:
        return schemas.decoded(bytes(data), kind, dict(attributes.as_py() or ()))
    if kind in AVRO_TYPES or not (kind in _JSON_TYPES or kind.endswith("+json")):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def converter(kind: pa.DataType) -> _Convert:
    """Return a function from any value to a value of `kind`, or None.

    Raises InvalidOption for a type that bodies cannot have.
    """
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(converter(kind.value_type))
    if pa.types.is_map(kind):
        return _map(converter(kind.item_type))
    if pa.types.is_integer(kind):
        return _integer(kind.bit_width)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    for is_kind, convert in _PLAIN:
        if is_kind(kind):
            return convert
    raise InvalidOption(f"body_schema: bodies have no {kind}")


def _struct(kind: pa.StructType) -> _Convert:
    converters = {field.name: converter(field.type) for field in kind}

    def convert(value: object) -> Value:
        if not isinstance(value, dict):
            return None
        return {
            name: None if (found := value.get(name)) is None else each(found)
            for name, each in converters.items()
        }

    return convert


def _list(each: _Convert) -> _Convert:
    def convert(value: object) -> Value:
        return [_or_none(each, one) for one in value] if isinstance(value, list) else None

    return convert


def _map(each: _Convert) -> _Convert:
    def convert(value: object) -> Value:
        if not isinstance(value, dict):
            return None
        return [(name, _or_none(each, one)) for name, one in value.items()]

    return convert


def _or_none(convert: _Convert, value: object) -> Value:
    return None if value is None else convert(value)


def _integer(bits: int) -> _Convert:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: object) -> Value:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return value if whole and low <= value <= high else None  # type: ignore[operator]

    return convert


def _decimal(precision: int, scale: int) -> _Convert:
    least = Decimal(1).scaleb(-scale)

    def convert(value: object) -> Value:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            return None
        try:
            exact = Decimal(str(value)).quantize(least)
        except InvalidOperation:
            return None
        fits = exact.is_finite() and len(exact.as_tuple().digits) <= precision
        return exact if fits else None

    return convert


def _boolean(value: object) -> Value:
    return value if isinstance(value, bool) else None


def _double(value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text(value: object) -> Value:
    """Return a text as it is, and another value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    except ValueError:
        return None


def _bytes(value: object) -> Value:
    """In JSON these are base64."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return None


def _moment(value: object) -> Value:
    """Return a time from RFC 3339; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _day(value: object) -> Value:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], _Convert], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _double),
    (pa.types.is_string, _text),
    (pa.types.is_binary, _bytes),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date, _day),
)
