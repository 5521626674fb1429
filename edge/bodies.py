"""Reads the JSON bodies of requests as the contract's classes; every refusal names the field.

There is one reader, and its bounds differ. A body of the control plane is small, and what it says
has to be certain: its values are counted, and a member that is named twice is refused. A body about
messages is long, and its time is that of many messages: only a long one has its values counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from edge.decode_errors import field_error, malformed
from edge.duplicate_keys import refuse_duplicates
from edge.large_bodies import MAX_VALUES_HERE, dear
from edge.problem import Problem, invalid
from edge.whole_numbers import with_integers

MAX_VALUES = 40_000
"""Values of a body; reading, looking for duplicates and converting take 0.5 µs for each."""
MAX_CONTAINERS = 10_000
"""Arrays and objects of a body; each takes 2 µs."""
UNCOUNTED_BYTES = 1024 * 1024
"""Length up to which a body about messages may have any number of values."""
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""The expression matches whatever follows a quote: without an end it would be tried from each."""
_WANTED_INTEGER = re.compile(r"Expected `int\b[^`]*`, got `float`")
T = TypeVar("T")


class Bounds(NamedTuple):
    """The bounds of a body beside its length and those of its fields."""

    are_met: Callable[[bytes], bool] | None
    """Whether a body meets the bounds; None where it may have any number of values."""
    sentence: str
    """The bound in words, for a body that does not meet it."""
    unique: bool
    """Whether a member that an object names twice is refused."""


def has_few_values(body: bytes) -> bool:
    """Return whether reading the body as JSON takes no longer than a callback may."""
    return _within_bounds(body) or _within_bounds(_STRING.sub(b"", body))


def _within_bounds(text: bytes) -> bool:
    containers = text.count(b"[") + text.count(b"{")
    return containers <= MAX_CONTAINERS and text.count(b",") + containers <= MAX_VALUES


CONTROL = Bounds(
    has_few_values,
    f"A body has at most {MAX_VALUES} values, {MAX_CONTAINERS} of them arrays and objects.",
    unique=True,
)
"""The bounds of control-plane requests."""
OF_OPERATORS = Bounds(None, "", unique=True)
"""The bounds for a caller that is above all tenants, whose bodies are as large as they have to be.
"""
OF_MESSAGES = Bounds(
    lambda body: len(body) <= UNCOUNTED_BYTES or not dear(body),
    f"A body of more than {UNCOUNTED_BYTES} bytes has at most {MAX_VALUES_HERE} values.",
    unique=False,
)
"""The bounds of requests about messages."""
APART = Bounds(None, "", unique=False)
"""The bounds of a request about messages that is read where it holds up nobody."""


def decode(body: bytes, decoder: msgspec.json.Decoder[T], bounds: Bounds = OF_MESSAGES) -> T:
    """Decode a body as the decoder's class. Raises the Problems of `read`."""
    return read(body, decoder.type, bounds, decoder)


def read(
    body: bytes, kind: type[T], bounds: Bounds, decoder: msgspec.json.Decoder[T] | None = None
) -> T:
    """Decode a body as `kind`, with a `decoder` of that class at once if it can.

    Raises a 400 Problem for a body that is not JSON or does not meet its bounds, and a 422 Problem
    that names the field for one that does not fit.
    """
    if bounds.are_met is not None and not bounds.are_met(body):
        raise Problem.of("malformed-body", bounds.sentence)
    try:
        if decoder is not None:
            try:
                return decoder.decode(body)
            except msgspec.ValidationError as error:
                if not _WANTED_INTEGER.match(str(error)):
                    raise _unfit(error, kind) from error
        # A number that nothing can hold is found here, and there is no field to name yet.
        raw = with_integers(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(error) from error
    if bounds.unique:
        refuse_duplicates(body)
    return converted(raw, kind)


def converted(value: object, kind: type[T]) -> T:
    """Return decoded JSON as `kind`; raise a 422 Problem naming the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _unfit(error, kind) from error


def _unfit(error: msgspec.ValidationError, kind: object) -> Problem:
    return invalid("The body does not fit.", [field_error(str(error), kind=kind)])
