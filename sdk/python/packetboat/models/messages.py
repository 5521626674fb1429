"""Messages: as they are published, as they come, and as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from packetboat.codec import decoder, is_json


class Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Model(Protocol):
    """An instance of a model, such as pydantic's: it can say its own form in JSON."""

    @property
    def model_dump(self) -> Callable[..., Any]:
        """Called with `mode="json"` and `by_alias=True`."""


Bytes = bytes | bytearray | memoryview
Plain = Mapping[str, Any] | Sequence[Any] | int | float | bool | None
Data = Bytes | str | Plain | Dataclass | msgspec.Struct | Model
"""Bytes are sent as they are, text as UTF-8, anything else as JSON. `nan` and `inf` are refused."""
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
    traceparent: str | None = None
    """W3C trace context; None: that of the active span of OpenTelemetry, if there is one."""
    tracestate: str | None = None


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


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What was published: the same however a message is got."""

    data: msgspec.Raw = msgspec.Raw()
    """JSON as JSON, text as a JSON string; `body`, `text` and `json()` read it."""
    data_base64: bytes | None = None
    """Anything else, decoded."""
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    publisher_id: str | None = None
    priority: int = 0
    traceparent: str | None = None
    """W3C trace context, of what was published within a trace."""
    tracestate: str | None = None

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
        """The body as UTF-8; raises UnicodeDecodeError where it is none."""
        return self.body.decode("utf-8")

    def json(self, kind: Any = Any) -> Any:
        """The body read as JSON, as `kind` where one is given: a dataclass, a Struct, a model of
        pydantic, or whatever else may be published. Raises msgspec.DecodeError where the body is no
        JSON, and msgspec.ValidationError where it does not fit."""
        return msgspec.json.decode(self.body) if kind is Any else decoder(kind)(self.body)


class Message(Content, frozen=True, kw_only=True):
    """A leased message: ack it before its deadline or it is delivered again."""

    message_id: str
    ack_id: str | None
    """None where it was acked as it was delivered: subscriptions that are `at_most_once`."""
    publish_time: datetime
    partition: int
    offset: int
    attempt: int = 1
    """How often it was delivered, this time included."""


class StoredMessage(Content, frozen=True, kw_only=True):
    """A message as it is stored, whether or not it is published yet. Of a cancelled one the
    content may be gone."""

    message_id: str
    partition: int
    state: str = "published"
    """`scheduled`, `published` or `cancelled`."""
    offset: int | None = None
    publish_time: datetime | None = None
    scheduled_for: datetime | None = None
    accepted_time: datetime | None = None
    """When it was stored, of one that is not published."""


class DelayedMessage(msgspec.Struct, frozen=True):
    """A message that waits for its time."""

    message_id: str
    partition: int
    key: str | None
    scheduled_for: datetime
    accepted_time: datetime
    content_type: str | None = None
    size_bytes: int = 0
    priority: int = 0


class ReplayPage(msgspec.Struct, frozen=True):
    """Part of a partition, in the order of offsets."""

    messages: tuple[StoredMessage, ...]
    next_offset: int
    """Where the next read goes on."""
    first_offset: int
    """The first one stored."""
    end_offset: int
    """One past the last."""


class PartitionOffsets(msgspec.Struct, frozen=True):
    """`at` is the first message that is not older than the time asked for; `end`: one past the
    last."""

    first: int
    end: int
    at: int


class AckState(msgspec.Struct, frozen=True):
    """What a subscription has done with a message."""

    state: str
    """`acked`, `pending`, `leased`, `dead_lettered`, `expired`, `filtered`, `skipped`, `settled`
    or `scheduled`."""
    attempts: int | None = None
    settled_at: datetime | None = None
    reason: str | None = None
    """Why it is pending still, or was dead-lettered."""
    detail: str | None = None
    """What the consumer said of it."""
    not_before: datetime | None = None
    """When its back-off ends; of what is scheduled, its time."""
    outcomes: tuple[str, ...] | None = None
    """What a message that is `settled` can be; the topic keeps no `ack_history` that says it."""
