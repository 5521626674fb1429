"""Reads control-plane bodies and the versions in their headers."""

from __future__ import annotations

import re
from typing import TypeVar

from edge.asgi import Receive, Scope, read_body
from edge.bodies import CONTROL, read

MAX_BODY_BYTES = 256 * 1024
T = TypeVar("T")


async def read_json(scope: Scope, receive: Receive, kind: type[T]) -> T:
    """Return the body as `kind`: 400 if it is no JSON or has too many values, 422 naming the field
    if it does not fit."""
    return decode_json(await read_body(scope, receive, MAX_BODY_BYTES), kind)


def decode_json(body: bytes, kind: type[T]) -> T:
    """Return a body that was received as `kind`; raise the Problems of `read_json`."""
    return read(body, kind, CONTROL)


def etag(version: int) -> tuple[bytes, bytes]:
    return b"etag", b'"%d"' % version


def if_match(header_value: bytes | None) -> int | None:
    """Return the version of an If-Match header: None for none or `*`, -1 if it matches nothing."""
    if header_value is None or header_value.strip() == b"*":
        return None
    found = re.fullmatch(rb'"([0-9]{1,18})"', header_value.strip())
    return int(found[1]) if found else -1
