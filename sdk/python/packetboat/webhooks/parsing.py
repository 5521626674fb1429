"""Turns verified requests into values. The subscription says the format: if a receiver guessed it,
a publisher could decide the meaning of a request.

In `raw` and `cloudevents_binary` the facts about a message are in headers, which no signature
covers; its id is that of the signed `webhook-id` all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from packetboat.webhooks import cloud_events
from packetboat.webhooks.deliveries import Challenge, Delivery, Format, Message
from packetboat.webhooks.errors import Unreadable
from packetboat.webhooks.headers import Headers
from packetboat.webhooks.signatures import ID

CHALLENGE_PREFIX = "verification_"
"""The start of the `webhook-id` of a challenge; no message's id begins so."""
_SUBSCRIPTION = "packetboat-subscription"
_TOPIC = "packetboat-topic"


class _Challenge(msgspec.Struct, tag_field="type", tag="packetboat.endpoint.verification"):
    subscription: str
    challenge: str


class _Pushed(msgspec.Struct):
    """A message as a pull shows it, without an ack id."""

    message_id: str
    publish_time: datetime
    partition: int
    offset: int
    attempt: int
    data: msgspec.Raw = msgspec.Raw()
    data_base64: bytes | None = None
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    publisher_id: str | None = None
    priority: int = 0
    traceparent: str | None = None
    tracestate: str | None = None


class _Batch(msgspec.Struct):
    subscription: str
    topic: str
    messages: list[_Pushed]


_challenges = msgspec.json.Decoder(_Challenge)
_batches = msgspec.json.Decoder(_Batch)
_names = msgspec.json.Decoder(dict[str, str])


def parse(headers: Headers, body: bytes, format: Format) -> Delivery | Challenge:
    """Return the content of a verified request. Raises Unreadable."""
    webhook_id = headers.one(ID)
    if webhook_id.startswith(CHALLENGE_PREFIX):
        asked = _decode(_challenges, body, "the challenge")
        return Challenge(asked.subscription, asked.challenge)
    return _PARSERS[format](webhook_id, headers, body)


def _json(webhook_id: str, headers: Headers, body: bytes) -> Delivery:
    batch = _decode(_batches, body, "the body, as push.format `json`")
    single = len(batch.messages) == 1
    messages = tuple(
        Message(
            message_id=one.message_id,
            body=cloud_events.body_of(one.data, one.data_base64, one.content_type),
            content_type=one.content_type,
            key=one.key,
            attributes=one.attributes,
            publish_time=one.publish_time,
            attempt=one.attempt,
            partition=one.partition,
            offset=one.offset,
            priority=one.priority,
            publisher_id=one.publisher_id,
            traceparent=one.traceparent or (headers.get("traceparent") if single else None),
            tracestate=one.tracestate,
        )
        for one in batch.messages
    )
    return Delivery(webhook_id, batch.subscription, batch.topic, messages)


def _raw(webhook_id: str, headers: Headers, body: bytes) -> Delivery:
    attributes = headers.get("packetboat-attributes")
    key = headers.get("packetboat-key")
    message = Message(
        message_id=webhook_id,
        body=body,
        content_type=headers.get("content-type"),
        key=None if key is None else unquote(key),
        attributes={}
        if attributes is None
        else _decode(_names, attributes.encode(), "Packetboat-Attributes"),
        attempt=_number(headers.get("packetboat-attempt")),
        traceparent=headers.get("traceparent"),
        tracestate=headers.get("tracestate"),
    )
    return _of(webhook_id, headers, (message,))


def _binary(webhook_id: str, headers: Headers, body: bytes) -> Delivery:
    event = {name: unquote(value) for name, value in headers.below("ce-").items()}
    if "specversion" not in event:
        raise Unreadable("no ce-specversion: the subscription's push.format is another one")
    if "pbmessageid" not in event:
        event["id"] = webhook_id
    topic, content_type = headers.get(_TOPIC), headers.get("content-type")
    message = cloud_events.message_of(event, body, content_type, topic, webhook_id)
    return _of(webhook_id, headers, (message,))


def _structured(webhook_id: str, headers: Headers, body: bytes) -> Delivery:
    message = cloud_events.parse_one(body, headers.get(_TOPIC))
    return _of(webhook_id, headers, (message,))


def _batched(webhook_id: str, headers: Headers, body: bytes) -> Delivery:
    return _of(webhook_id, headers, cloud_events.parse_all(body, headers.get(_TOPIC)))


_PARSERS: dict[Format, Callable[[str, Headers, bytes], Delivery]] = {
    "json": _json,
    "raw": _raw,
    "cloudevents_binary": _binary,
    "cloudevents_structured": _structured,
    "cloudevents_batched": _batched,
}
FORMATS = frozenset(_PARSERS)


def _of(webhook_id: str, headers: Headers, messages: tuple[Message, ...]) -> Delivery:
    return Delivery(webhook_id, headers.get(_SUBSCRIPTION), headers.get(_TOPIC), messages)


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes, what: str) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"{what} cannot be read: {error}") from error


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
