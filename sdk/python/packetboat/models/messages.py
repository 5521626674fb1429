# Generated from openapi/: `make generate`. Do not edit.
"""Messages: as you publish, receive, settle and look them up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from packetboat.models.data import Data
from packetboat.models.methods import Failure, Readable

Durability = Literal["quorum", "all"]
EarlyDurability = Literal["leader", "none"]


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish in a batch. Give `deliver_at`, with a zone, or `delay_seconds`."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """The W3C trace context; None stands for that of the active span of OpenTelemetry, if there is
    one."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""
    idempotency_key: str | None = None
    delay_seconds: float | None = None
    deliver_at: datetime | None = None
    """The time to publish it, instead of `delay_seconds`."""


class Receipt(msgspec.Struct, frozen=True):
    """The proof that a message is stored. A delayed message has its final id, and no offset yet."""

    message_id: str
    topic: str
    partition: int
    offset: int | None
    """None while the message waits to be published."""
    publish_time: datetime | None
    """None while the message waits to be published, and for a duplicate of a message that is
    gone."""
    duplicate: bool = False
    """Whether the message was known by its idempotency key or its batch; the receipt is then that
    of the first one."""
    scheduled_for: datetime | None = None
    """The time of a delayed message; None in the receipt of a duplicate."""
    accepted_time: datetime | None = None
    """The time at which a delayed message was stored."""


class Content(Readable, msgspec.Struct, frozen=True, kw_only=True):
    """The content of a message, which is the same however you get the message."""

    data: msgspec.Raw = msgspec.Raw(b"")
    """JSON as JSON, text as a JSON string; `body`, `text` and `json()` read it."""
    data_base64: bytes | None = None
    """Any other body, decoded."""
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    publisher_id: str | None = None
    priority: int = 0
    traceparent: str | None = None
    """W3C trace context, of a message that was published with one."""
    tracestate: str | None = None
    """W3C trace state, of a message that was published with one beside traceparent."""


class Message(Content, frozen=True, kw_only=True):
    """A leased message: ack it before its deadline, or it is delivered again."""

    message_id: str
    publish_time: datetime
    partition: int
    offset: int
    ack_id: str | None
    """None where the message is acked already, as with at-most-once delivery."""
    attempt: int = 1
    """The number of its deliveries, with this one."""


class StoredMessage(Content, frozen=True, kw_only=True):
    """A message as it is stored, whether or not it is published yet. The content of a cancelled
    message may be gone."""

    message_id: str
    partition: int
    state: str = "published"
    """`scheduled`, `published` or `cancelled`."""
    publish_time: datetime | None = None
    offset: int | None = None
    scheduled_for: datetime | None = None
    accepted_time: datetime | None = None
    """The time at which it was stored; given while it is not published."""


class DelayedMessage(msgspec.Struct, frozen=True):
    """A message that waits for its time."""

    message_id: str
    partition: int
    key: str | None
    scheduled_for: datetime
    accepted_time: datetime
    content_type: str | None = None
    size_bytes: int = 0
    """The size of the body."""
    priority: int = 0


class ReplayPage(msgspec.Struct, frozen=True):
    """Messages of a partition, in the order of their offsets."""

    messages: tuple[StoredMessage, ...]
    next_offset: int
    """The offset from which the next read goes on."""
    first_offset: int
    """The first offset stored."""
    end_offset: int
    """One past the last."""


class PartitionOffsets(msgspec.Struct, frozen=True):
    """Offsets of a partition."""

    first: int
    """The first offset stored."""
    end: int
    """One past the last offset."""
    at: int
    """The offset of the first message that is not older than the time asked for."""


class AckState(msgspec.Struct, frozen=True):
    """The state of a message in one subscription."""

    state: str
    """`acked`, `pending`, `leased`, `dead_lettered`, `expired`, `filtered`, `skipped`, `settled` or
    `scheduled`."""
    outcomes: tuple[str, ...] | None = None
    """The possible outcomes of a message that is `settled`, where the topic keeps no `ack_history`
    that says which."""
    attempts: int | None = None
    """The number of attempts that ended without an ack, and the present one of a leased message;
    given for pending, leased and dead-lettered messages."""
    settled_at: datetime | None = None
    """The time of the outcome, where the topic keeps its ack history, and of dead letters."""
    reason: str | None = None
    """The reason that the message is still pending, or was dead-lettered."""
    detail: str | None = None
    """The comment of the consumer."""
    not_before: datetime | None = None
    """The end of the back-off, or the time of a delayed message."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish with an ack: consumers see it if and only if the ack is committed."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    topic: str
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    ttl_seconds: float | None = None
    """Seconds after which the message expires, if it is not delivered; they count from when it is
    due."""
    traceparent: str | None = None
    """The W3C trace context; None stands for that of the active span of OpenTelemetry, if there is
    one."""
    tracestate: str | None = None
    """The W3C trace state that belongs to `traceparent`."""


class ItemFailure(Failure, msgspec.Struct, frozen=True):
    """The reason that one item failed."""

    index: int
    status: int
    type: str
    ack_id: str | None = None
    message_id: str | None = None
    detail: str = ""
