"""A delivered message, for people."""

from __future__ import annotations

import base64
import json
from typing import Any

from packetboat.cli.output import colored, printable, shown

PRETTY, DATA = "pretty", "data"
MAX_SHOWN_BYTES = 256
"""The limit of bytes that are shown of a binary body."""


def pretty(message: dict[str, Any], style: str) -> str:
    """Return a line about a message, and its body; in the style `data` only the body.

    The text ends with a line break.
    """
    body = body_of(message)
    if style == DATA:
        return f"{body}\n"
    parts = [_time(message), f"{message['partition']}/{message['offset']}"]
    if message.get("key") is not None:
        parts.append(f"key={shown(message['key'])}")
    parts += [f"{name}={shown(value)}" for name, value in (message.get("attributes") or {}).items()]
    if message.get("attempt", 1) > 1:
        parts.append(f"attempt={message['attempt']}")
    head = " ".join(parts)
    return f"\x1b[2m{head}\x1b[0m\n{body}\n" if colored() else f"{head}\n{body}\n"


def body_of(message: dict[str, Any]) -> str:
    """Return text as it is, JSON in one line, other bodies in base64."""
    if "data_base64" in message:
        raw = base64.b64decode(message["data_base64"])
        try:
            return printable(raw.decode())
        except UnicodeDecodeError:
            more = "…" if len(raw) > MAX_SHOWN_BYTES else ""
            shown_part = base64.b64encode(raw[:MAX_SHOWN_BYTES]).decode()
            return f"({len(raw)} bytes) {shown_part}{more}"
    data = message.get("data")
    return printable(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))


def _time(message: dict[str, Any]) -> str:
    return str(message.get("publish_time") or "-")
