"""A body as values without any loss.

JSON is read as `None`, `bool`, `int` (of any size), `float`, `str`, `list` and `dict`; a number
that is no double is a `LongNumber`. A value that is not certain is `INEXACT`.
"""

from __future__ import annotations

import enum
import json
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_INT_DIGITS = 40
"""Far more digits than 64 bits have.

The time to read a number grows with the square of its length.
"""


class Inexact(enum.Enum):
    INEXACT = "inexact"


INEXACT = Inexact.INEXACT


class Undecodable(Exception):
    """The body is no value of its format; `reason` is a word for programs."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LongNumber(Decimal):
    """A number of JSON with more digits than a double has, or out of a double's range."""


def json_value(body: bytes) -> Any:
    """Read a body, which has nothing but white space after the value.

    Raises Undecodable, also for NaN.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Undecodable("not-utf-8") from None
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise Undecodable("nested-too-deep") from None
    except ValueError:
        raise Undecodable("not-json") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object; one that occurs twice is INEXACT.

    The standard does not say which of the two counts.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                members[name] = INEXACT
            seen.add(name)
    return members


def _int(text: str) -> int | LongNumber:
    return int(text) if len(text) <= MAX_INT_DIGITS else LongNumber(text)


def _float(text: str) -> float | LongNumber | Inexact:
    """Return the double whose shortest text is this number, if there is one."""
    value = float(text)
    if repr(value) == text:
        return value
    try:
        number = LongNumber(text)
    except InvalidOperation:  # an exponent that is out of every range
        return INEXACT
    is_finite = value - value == 0
    return value if is_finite and number == Decimal(repr(value)) else number


def _no_constant(text: str) -> Any:
    raise ValueError(text)


_decoder = json.JSONDecoder(
    object_pairs_hook=_members,
    parse_int=_int,
    parse_float=_float,
    parse_constant=_no_constant,
)


def is_text(value: str) -> bool:
    """Return whether UTF-8 can write it: `\\ud800` alone is a JSON string and no text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
