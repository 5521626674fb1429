"""Values as bodies have them, where a value in Python has another form."""

from __future__ import annotations

import base64
from typing import Any

from packetboat.calls.call import put
from packetboat.calls.content import content_members
from packetboat.models import ScheduleMessage


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
