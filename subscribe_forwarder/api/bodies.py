"""Reads the bodies of requests with the contract's classes."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from edge.decode_errors import field_error, malformed
from edge.large_bodies import MAX_VALUES_HERE, dear
from edge.problem import Problem, invalid
from edge.whole_numbers import with_integers

UNCOUNTED_BYTES = 1024 * 1024
"""Length up to which a body may have any number of values."""
_WANTED_INTEGER = re.compile(r"Expected `int\b[^`]*`, got `float`")
T = TypeVar("T")


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the decoded body. Raise a 400 Problem for a body that is not JSON or has too many
    values, and a 422 Problem that names the field for one that does not fit."""
    if len(body) > UNCOUNTED_BYTES and dear(body):
        raise Problem(
            400,
            "malformed-body",
            "Malformed body",
            f"A body of more than {UNCOUNTED_BYTES} bytes has at most {MAX_VALUES_HERE} values.",
        )
    return decoded(body, decoder)


def decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the decoded body, as `decode` does, with any number of values."""
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError as error:
            if not _WANTED_INTEGER.match(str(error)):
                raise
            whole: T = msgspec.convert(with_integers(msgspec.json.decode(body)), decoder.type)
            return whole
    except msgspec.ValidationError as error:
        raise invalid(
            "The body does not fit.", [field_error(str(error), kind=decoder.type)]
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(error) from error
