"""What is published, as members of a JSON body."""

from __future__ import annotations

import base64
from typing import Any

from packetboat.models import Data


def content_members(data: Data, content_type: str | None) -> dict[str, Any]:
    """`data` or `data_base64`, with the content type where it was given: JSON without one is known
    as such, as is text."""
    members: dict[str, Any] = {} if content_type is None else {"content_type": content_type}
    if isinstance(data, bytes):
        return members | {"data_base64": base64.b64encode(data).decode("ascii")}
    return members | {"data": data}
