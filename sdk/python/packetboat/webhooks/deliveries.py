"""The content of a webhook: messages, or a question whether they are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

Format = Literal[
    "json", "raw", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"
]
"""`push.format` of the subscription."""
TEST_PREFIX = "test_"
"""The start of the `webhook-id` of a requested sample (`:test`); no message's id begins so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. None is what its format does not say."""

    message_id: str
    """The id of the message, the same in every attempt: handle a message once by it."""
    body: bytes
    """The body as published, but JSON may have another layout in CloudEvents and `json`."""
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    publish_time: datetime | None = None
    attempt: int | None = None
    """The number of the attempt; the first is 1."""
    partition: int | None = None
    offset: int | None = None
    priority: int | None = None
    publisher_id: str | None = None
    traceparent: str | None = None
    """W3C trace context, of what was published within a trace."""
    tracestate: str | None = None
    event: Mapping[str, str] | None = None
    """The context attributes, where it came as a CloudEvent."""

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode("utf-8")

    def json(self) -> Any:
        """Return the body as JSON. Raises msgspec.DecodeError."""
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request with messages: all of them are acked by a 2xx, or none."""

    webhook_id: str
    subscription: str | None
    topic: str | None
    messages: tuple[Message, ...]

    @property
    def message(self) -> Message:
        """The one message of a subscription whose `max_batch` is 1. ValueError where it is not."""
        if len(self.messages) != 1:
            raise ValueError(f"there are {len(self.messages)} messages: use `messages`")
        return self.messages[0]

    @property
    def is_test(self) -> bool:
        """Whether it is a sample (`POST /subscriptions/…:test`), and of no message."""
        return self.webhook_id.startswith(TEST_PREFIX)


@dataclass(frozen=True, slots=True)
class Challenge:
    """Packetboat asks whether messages are wanted here: answer 200 with `text` as the body."""

    subscription: str
    text: str
