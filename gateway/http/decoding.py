"""Strict reading of control-plane bodies; every refusal names the field."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from edge.asgi import Receive, Scope, read_body
from edge.decode_errors import field_error, malformed
from edge.duplicate_keys import refuse_duplicates
from edge.problem import Problem, invalid
from edge.whole_numbers import with_integers

MAX_BODY_BYTES = 256 * 1024
MAX_VALUES = 40_000
"""Values of a body; reading, looking for duplicates and converting take 0.5 µs for each."""
MAX_CONTAINERS = 10_000
"""Arrays and objects of a body; each takes 2 µs."""
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""The expression matches whatever follows a quote: without an end it would be tried from each."""
T = TypeVar("T")


async def read_json(scope: Scope, receive: Receive, kind: type[T]) -> T:
    """Return the body as `kind`: 400 if it is no JSON or has too many values, 422 naming the field
    if it does not fit."""
    return decode_json(await read_body(scope, receive, MAX_BODY_BYTES), kind)


def decode_json(body: bytes, kind: type[T], *, bounded: bool = True) -> T:
    """Return the body as `kind`; `bounded` is False for a caller that is above all tenants, whose
    bodies are as large as they have to be."""
    if bounded:
        _refuse_many(body)
    try:
        raw = with_integers(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(error) from error
    refuse_duplicates(body)
    return converted(raw, kind)


def _refuse_many(body: bytes) -> None:
    """Raise a 400 Problem for a body that reading would hold up others."""
    if has_few_values(body):
        return
    raise Problem(
        400,
        "malformed-body",
        "Malformed body",
        f"A body has at most {MAX_VALUES} values, {MAX_CONTAINERS} of them arrays and objects.",
    )


def has_few_values(body: bytes) -> bool:
    """Return whether reading the body as JSON takes no longer than a callback may."""
    return _within_bounds(body) or _within_bounds(_STRING.sub(b"", body))


def _within_bounds(text: bytes) -> bool:
    containers = text.count(b"[") + text.count(b"{")
    return containers <= MAX_CONTAINERS and text.count(b",") + containers <= MAX_VALUES


def converted(value: object, kind: type[T]) -> T:
    """Return decoded JSON as `kind`; raise a 422 Problem naming the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise invalid("The body does not fit.", [field_error(str(error), kind=kind)]) from error


def etag(version: int) -> tuple[bytes, bytes]:
    return b"etag", b'"%d"' % version


def if_match(header_value: bytes | None) -> int | None:
    """Return the version of an If-Match header: None for none or `*`, -1 if it matches nothing."""
    if header_value is None or header_value.strip() == b"*":
        return None
    found = re.fullmatch(rb'"([0-9]{1,18})"', header_value.strip())
    return int(found[1]) if found else -1
