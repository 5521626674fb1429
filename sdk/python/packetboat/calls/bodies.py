"""Values as bodies have them, where a value in Python has another form."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from packetboat.calls.call import moment, put
from packetboat.codec import encode_data, encode_json
from packetboat.models import Data, Edit, Position, ScheduleMessage


def content_members(data: Data, content_type: str | None) -> dict[str, Any]:
    """`data` or `data_base64`, with the content type where it was given: JSON without one is known
    as such, as is text."""
    members: dict[str, Any] = {} if content_type is None else {"content_type": content_type}
    if isinstance(data, bytes | bytearray | memoryview):
        raw, _ = encode_data(data, content_type)
        return members | {"data_base64": base64.b64encode(raw).decode("ascii")}
    if isinstance(data, str):
        return members | {"data": data}
    return members | {"data": msgspec.Raw(encode_json(data))}


def schedule_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a schedule with its message as the API has it."""
    message = body.get("message")
    return body | {"message": _message(message)} if isinstance(message, ScheduleMessage) else body


def _message(message: ScheduleMessage) -> dict[str, Any]:
    members = content_members(message.data, message.content_type)
    put(
        members,
        key=message.key,
        attributes=message.attributes,
        ttl_seconds=message.ttl_seconds,
        priority=message.priority or None,
    )
    return members


def body_to_validate(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a validation, in which bytes are base64."""
    data = body["data"]
    if not isinstance(data, bytes):
        return body
    del body["data"]
    return body | {"data_base64": base64.b64encode(data).decode("ascii")}


def subscription_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a subscription: its start as the API has it, and its type where it has an
    endpoint."""
    if "start" in body:
        body["start"] = position(body["start"])
    if body.get("push") is not None:
        body.setdefault("type", "push")
    return body


def position(to: Position) -> Any:
    """Return a position as the API has it."""
    if isinstance(to, datetime):
        return {"time": moment(to)}
    return {"offset": to} if isinstance(to, int) else to


def export_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of an export, whose start may be a time."""
    start = body.get("start")
    return body | {"start": moment(start)} if isinstance(start, datetime) else body


def audit_query(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query of a choice of changes."""
    names = {"since": "from", "until": "to"}
    return {names.get(name, name): value for name, value in filters.items()}


def edited(edit: Edit | None) -> dict[str, Any] | None:
    """Return the changes of a redrive as the API has them."""
    if edit is None:
        return None
    members: dict[str, Any] = {}
    put(members, attributes=edit.attributes, content_type=edit.content_type)
    if edit.data is not msgspec.UNSET:
        members |= content_members(edit.data, edit.content_type)
    if edit.key is not msgspec.UNSET:
        members["key"] = edit.key
    return members
