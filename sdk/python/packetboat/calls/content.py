"""Messages to publish, as members of a JSON body."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from packetboat.codec import encode_data, encode_json
from packetboat.models import Data


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
