"""Compiled columns: for each type how a body is read fast, which values fit it exactly, and how its
values become Arrow arrays.

A struct's values are objects of a class that is made for it, the same from the fast reader and from
`fit`. Null is `None`, or `UNSET` if a member was not there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Annotated, Any, Protocol

import msgspec
import pyarrow as pa
from msgspec import UNSET

from spark_exports.driver.bodies.names import member_of
from spark_exports.driver.bodies.shape import LONG
from spark_exports.driver.bodies.values import is_text

_Fit = tuple[Any, bool]
"""A value for the column (None if the value does not fit), and whether it is all of the value."""
_MISFIT: _Fit = (None, False)


class Node(Protocol):
    """A column or field.

    `fast` is the type for `msgspec`'s reader, None if that has no exact type.
    """

    fast: Any

    def fit(self, value: Any) -> _Fit: ...

    def arrow(self, values: list[Any]) -> pa.Array: ...


def node_of(kind: pa.DataType) -> Node:
    if pa.types.is_struct(kind):
        return StructNode(tuple(kind))
    if pa.types.is_list(kind):
        return _ListNode(kind)
    return _ScalarNode(kind)


class _ScalarNode:
    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        fast = _FAST.get(kind)
        self.fast = None if fast is None else fast | None
        self._fit = _fit_decimal(kind) if pa.types.is_decimal(kind) else _FITS.get(kind, _no_fit)

    def fit(self, value: Any) -> _Fit:
        return (None, True) if value is None else self._fit(value)

    def arrow(self, values: list[Any]) -> pa.Array:
        return pa.array([None if value is UNSET else value for value in values], self._kind)


class _ListNode:
    def __init__(self, kind: pa.ListType) -> None:
        self._kind = kind
        self._element = node_of(kind.value_type)
        self._is_flat = isinstance(self._element, _ScalarNode)
        fast = self._element.fast
        self.fast = None if fast is None else list[fast] | None  # type: ignore[valid-type]

    def fit(self, value: Any) -> _Fit:
        if value is None:
            return None, True
        if type(value) is not list:
            return _MISFIT
        fits = [self._element.fit(one) for one in value]
        return [one for one, _ in fits], all(exact for _, exact in fits)

    def arrow(self, values: list[Any]) -> pa.Array:
        if self._is_flat:
            return pa.array([None if value is UNSET else value for value in values], self._kind)
        offsets: list[int | None] = []
        elements: list[Any] = []
        for value in values:
            if value is None or value is UNSET:
                offsets.append(None)
            else:
                offsets.append(len(elements))
                elements.extend(value)
        offsets.append(len(elements))
        inner = self._element.arrow(elements)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=self._kind)


class StructNode:
    """A column of objects, with a field for each member; `type` is the class of its values."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._nodes = [node_of(field.type) for field in fields]
        members = [member_of(field) for field in fields]
        attributes = [f"f{number}" for number in range(len(members))]
        self._by_member = dict(zip(members, zip(attributes, self._nodes, strict=True), strict=True))
        self._attributes = attributes
        self.is_fast = all(node.fast is not None for node in self._nodes)
        self.type = msgspec.defstruct(
            "Members",
            [
                (name, Any if node.fast is None else node.fast | msgspec.UnsetType, UNSET)
                for name, node in zip(attributes, self._nodes, strict=True)
            ],
            rename=dict(zip(attributes, members, strict=True)),
            forbid_unknown_fields=True,
            omit_defaults=True,
            gc=False,
        )
        self.fast = self.type | None if self.is_fast else None

    def fit(self, value: Any) -> _Fit:
        if value is None:
            return None, True
        if not isinstance(value, dict):
            return _MISFIT
        row = self.type()
        exact = True
        for member, one in value.items():
            known = self._by_member.get(member)
            if known is None:
                exact = exact and one is None
                continue
            attribute, node = known
            fitted, fits = node.fit(one)
            exact = exact and fits
            setattr(row, attribute, fitted)
        return row, exact

    def arrow(self, values: list[Any]) -> pa.Array:
        rows, is_null = values, None
        if any(value is None or value is UNSET for value in values):
            empty = self.type()
            rows = [empty if value is None or value is UNSET else value for value in values]
            is_null = pa.array([value is None or value is UNSET for value in values], pa.bool_())
        return pa.StructArray.from_arrays(self.arrays(rows), fields=self.fields, mask=is_null)

    def arrays(self, rows: Sequence[Any]) -> list[pa.Array]:
        """Return a column for each field, of values that are all there."""
        return [
            node.arrow([getattr(row, attribute) for row in rows])
            for attribute, node in zip(self._attributes, self._nodes, strict=True)
        ]


def _no_fit(value: Any) -> _Fit:
    """Fit no value: the table has a column of a type that bodies have no values of."""
    return _MISFIT


def _fit_boolean(value: Any) -> _Fit:
    return (value, True) if type(value) is bool else _MISFIT


def _fit_long(value: Any) -> _Fit:
    return (value, True) if type(value) is int and value in LONG else _MISFIT


def _fit_double(value: Any) -> _Fit:
    if type(value) is float:
        return value, True
    if type(value) is int and int(nearest := float(value)) == value:
        return nearest, True
    return _MISFIT


def _fit_string(value: Any) -> _Fit:
    return (value, True) if type(value) is str and is_text(value) else _MISFIT


def _fit_timestamp(value: Any) -> _Fit:
    """Fit a time of RFC 3339 with a zone, to the microsecond at most."""
    if isinstance(value, datetime):
        return (value, True) if value.tzinfo is not None else _MISFIT
    if type(value) is not str or _digits_of_second(value) > 6:
        return _MISFIT
    return _converted(value, Annotated[datetime, msgspec.Meta(tz=True)])


def _fit_date(value: Any) -> _Fit:
    if type(value) is date:
        return value, True
    return _converted(value, date) if type(value) is str else _MISFIT


def _fit_binary(value: Any) -> _Fit:
    """Fit bytes, which are base64 in JSON."""
    if type(value) is bytes:
        return value, True
    if type(value) is not str:
        return _MISFIT
    try:
        found = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return _MISFIT
    return (found, True) if base64.b64encode(found).decode() == value else _MISFIT


def _converted(value: str, kind: Any) -> _Fit:
    try:
        return msgspec.convert(value, kind), True
    except msgspec.ValidationError:
        return _MISFIT


def _digits_of_second(text: str) -> int:
    fraction = text.partition(".")[2]
    return len(fraction) - len(fraction.lstrip("0123456789"))


def _fit_decimal(kind: pa.Decimal128Type) -> Callable[[Any], _Fit]:
    """Return a function that fits a number of JSON, or a string of one, with no more digits than
    the type.
    """
    unit = Decimal(1).scaleb(-kind.scale)
    context = Context(prec=kind.precision, traps=[InvalidOperation, Inexact])

    def fit(value: Any) -> _Fit:
        if type(value) is float:
            value = repr(value)
        if type(value) is bool or not isinstance(value, int | str | Decimal):
            return _MISFIT
        try:
            number = Decimal(value)
            return (number.quantize(unit, context=context), True) if number.is_finite() else _MISFIT
        except (InvalidOperation, Inexact):
            return _MISFIT

    return fit


_FAST: dict[pa.DataType, Any] = {
    pa.bool_(): bool,
    pa.int64(): Annotated[int, msgspec.Meta(ge=LONG.start, le=LONG.stop - 1)],
    pa.float64(): float,
    pa.string(): str,
}
_FITS: dict[pa.DataType, Callable[[Any], _Fit]] = {
    pa.bool_(): _fit_boolean,
    pa.int64(): _fit_long,
    pa.float64(): _fit_double,
    pa.string(): _fit_string,
    pa.timestamp("us", tz="UTC"): _fit_timestamp,
    pa.date32(): _fit_date,
    pa.binary(): _fit_binary,
}
