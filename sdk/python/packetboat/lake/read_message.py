"""A message of a topic's history, whether the log or a table has it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from packetboat.models import StoredMessage


class ReadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was published; of its body a table may have but the columns."""

    topic: str
    partition: int
    lane: int
    """The priority whose messages it holds; 0 of a topic without priorities."""
    offset: int
    message_id: str
    publish_time: datetime
    key: str | None = None
    attributes: dict[str, str] = {}
    content_type: str | None = None
    publisher_id: str | None = None
    priority: int = 0
    source: Literal["log", "lake"] = "log"
    data: bytes | None = None
    """The body; None where the table has but its columns."""
    columns: Mapping[str, Any] | None = None
    """The fields of the body, where `data` is None."""

    @property
    def body(self) -> bytes:
        """`data`, or JSON made again from `columns`: the fields that are not null, in the order
        and with the types of the table."""
        return self.data if self.data is not None else _ENCODER.encode(self.columns)

    @property
    def text(self) -> str:
        """The body as UTF-8; raises UnicodeDecodeError where it is none."""
        return self.body.decode("utf-8")

    def json(self) -> Any:
        """Return the body read as JSON; raises msgspec.DecodeError for another body."""
        return msgspec.json.decode(self.body)


_ENCODER = msgspec.json.Encoder(decimal_format="number")


def of_log(topic: str, lane: int, stored: StoredMessage) -> ReadMessage:
    """Return a message from a replay's answer; it is published."""
    assert stored.offset is not None
    assert stored.publish_time is not None
    return ReadMessage(
        topic=topic,
        partition=stored.partition,
        lane=lane,
        offset=stored.offset,
        message_id=stored.message_id,
        publish_time=stored.publish_time,
        key=stored.key,
        attributes=stored.attributes,
        content_type=stored.content_type,
        publisher_id=stored.publisher_id,
        priority=stored.priority,
        data=stored.body,
    )
