"""The shape of a run's values: the least information that decides which columns they need.

A shape only grows, and does not depend on the order of the values: `see` and `add` are commutative,
associative and idempotent. So tasks, runs and attempts may come in any order.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from spark_exports.driver.bodies.values import is_text

MAX_DEPTH = 16
"""Levels of objects and arrays within each other; deeper values get no columns."""
MAX_MEMBERS = 20_000
"""Members of one shape; bodies with thousands of members use names as data."""
LONG = range(-(2**63), 2**63)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SCALARS: dict[type, str] = {
    bool: "boolean",
    float: "double",
    bytes: "binary",
    datetime: "timestamp",
    date: "date",
}


class Shape(msgspec.Struct):
    """All kinds of values that were seen in one place.

    `members` and `element` are None until an object or an array was seen there.
    """

    kinds: set[str] = msgspec.field(default_factory=set)
    members: dict[str, Shape] | None = None
    element: Shape | None = None

    def see(self, value: Any) -> None:
        """Add a value of `values`, or of Python's types for Avro's logical types."""
        _see(self, value, MAX_DEPTH)

    def add(self, other: Shape) -> None:
        self.kinds |= other.kinds
        if other.members is not None:
            members = self.members if self.members is not None else {}
            self.members = members
            for name, shape in other.members.items():
                if name in members or len(members) < MAX_MEMBERS:
                    members.setdefault(name, Shape()).add(shape)
        if other.element is not None:
            self.element = self.element or Shape()
            self.element.add(other.element)


def _see(shape: Shape, value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if is_text(value):
            shape.kinds.add("string")
    elif kind is int:
        if value in LONG:
            shape.kinds.add("long")
    elif kind in _SCALARS:
        shape.kinds.add(_SCALARS[kind])
    elif isinstance(value, dict):
        if depth:
            _see_members(shape, value, depth - 1)
    elif kind is list:
        if depth:
            shape.element = shape.element or Shape()
            for one in value:
                _see(shape.element, one, depth - 1)
    elif kind is Decimal:
        shape.kinds.add(decimal_kind(value))


def _see_members(shape: Shape, value: dict[str, Any], depth: int) -> None:
    members = shape.members if shape.members is not None else {}
    shape.members = members
    for name, one in value.items():
        if one is None or not is_text(name):
            continue
        inner = members.get(name)
        if inner is None:
            if len(members) >= MAX_MEMBERS:
                continue
            inner = members[name] = Shape()
        _see(inner, one, depth)


def decimal_kind(value: Decimal) -> str:
    """Return the kind of a decimal from Avro's decoder, which has the scale of its schema."""
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    return f"decimal(38,{scale})"


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return precision and scale, or None if the kind is no decimal."""
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]), int(found[2])) if found else None
