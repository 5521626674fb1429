"""Messages: as they are published, and as they come."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

Data = bytes | str | Mapping[str, Any] | list[Any] | int | float | bool | None
"""Bytes are sent as they are, text as UTF-8, anything else as JSON."""
Durability = Literal["quorum", "all"]
EarlyDurability = Literal["leader", "none"]


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish in a batch. `deliver_at` has a zone; give that or `delay_seconds`."""

    data: Data
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    idempotency_key: str | None = None
    delay_seconds: float | None = None
    deliver_at: datetime | None = None
    ttl_seconds: float | None = None
    """What is not delivered by then is dropped; it counts from when the message is due."""


class Receipt(msgspec.Struct, frozen=True):
    """A message is durable, and where. One with a delay has no offset and no publish time until it
    is published; its id is final. `duplicate`: an earlier publish with its key stored it."""

    message_id: str
    topic: str
    partition: int
    offset: int | None
    publish_time: datetime | None
    duplicate: bool = False
    scheduled_for: datetime | None = None
    accepted_time: datetime | None = None


class Message(msgspec.Struct, frozen=True):
    """A leased message: ack it before its deadline or it is delivered again."""

    message_id: str
    ack_id: str
    publish_time: datetime
    partition: int
    offset: int
    data: msgspec.Raw = msgspec.Raw()
    data_base64: bytes | None = None
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    publisher_id: str | None = None
    priority: int = 0
    attempt: int = 1

    @property
    def body(self) -> bytes:
        """The bytes as published, but for JSON that was published in another layout."""
        if self.data_base64 is not None:
            return self.data_base64
        raw = bytes(self.data)
        if raw.startswith(b'"') and not is_json(self.content_type):
            return msgspec.json.decode(raw, type=str).encode("utf-8")
        return raw

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def is_json(content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")
