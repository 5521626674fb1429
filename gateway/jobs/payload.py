"""Bodies that carry JSON of callers, which is kept byte for byte as it came."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from edge.asgi import Receive, Scope, read_body
from edge.decode_errors import field_error, not_json
from edge.problem import FieldError, Problem, invalid
from gateway.http.decoding import decode_json

T = TypeVar("T")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


async def read_members(scope: Scope, receive: Receive, limit_bytes: int) -> dict[str, msgspec.Raw]:
    """Of the JSON object that the body is; all of it can be read. Raises a 400, 413 or 422."""
    body = await read_body(scope, receive, limit_bytes)
    try:
        # Also what is kept unread: nobody could read it out of an answer of ours.
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"The body is not JSON: {not_json(error)}."
        raise Problem(400, "malformed-body", "Malformed body", detail) from error
    return _decoded(body, "body", _members)


def members_of(item: msgspec.Raw, field: str) -> dict[str, msgspec.Raw]:
    """Of an object in it; raises a 422 Problem."""
    return _decoded(item, field, _members)


def items_of(members: dict[str, msgspec.Raw], name: str, most: int) -> list[msgspec.Raw]:
    """Takes the list of that name, of one item at least, out of them; raises a 422 Problem."""
    if name not in members:
        raise _refused(name, "required")
    items = _decoded(members.pop(name), name, _items)
    if not 1 <= len(items) <= most:
        raise _refused(name, f"1 to {most} items")
    return items


def payload_of(item: msgspec.Raw, field: str, most_bytes: int) -> bytes:
    """Raises a 422 Problem where it is too long."""
    payload = bytes(item)
    if len(payload) > most_bytes:
        raise _refused(field, f"at most {most_bytes} bytes of JSON")
    return payload


def converted(value: object, kind: type[T]) -> T:
    """What is left, held to the same rules as the body of any other request."""
    return decode_json(msgspec.json.encode(value), kind)


def _decoded(raw: msgspec.Raw | bytes, field: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _refused(field, field_error(str(error)).detail) from error


def _refused(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])
