"""CloudEvents 1.0 as Packetboat sends them, back into the message that they were made of.

    id       the message id         source            /topics/NAME
    type     packetboat.message     subject           the ordering key, if there is one
    time     when it was published  datacontenttype   its content type

A publisher's own type, source and subject were its attributes `ce-type`, `ce-source` and
`ce-subject`; extensions of other names were attributes, as was all in `pbattributes`.

An event with `pbmessageid` was published as one, and is as it was but for extensions that begin
with `pb`: each of its context attributes is an attribute of the message, with `ce-` before its
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from packetboat.webhooks.deliveries import Message
from packetboat.webhooks.errors import Unreadable

TYPE = "packetboat.message"
_KNOWN = frozenset(
    {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"}
    | {"data", "data_base64", "partitionkey", "traceparent", "tracestate"}
    | {"pbsubscription", "pbattempt", "pbpartition", "pboffset", "pbattributes"}
)
_OURS = frozenset(
    {"pbsubscription", "pbattempt", "pbpartition", "pboffset", "pbattributes"}
    | {"pbmessageid", "pbpublishtime", "pbkey", "pbtraceparent"}
)
"""The attributes that an event has from its delivery, beside those that were published as
an event.
"""
_Members = dict[str, msgspec.Raw]
_one = msgspec.json.Decoder(_Members)
_many = msgspec.json.Decoder(list[_Members])
_names = msgspec.json.Decoder(dict[str, str])
_time = msgspec.json.Decoder(datetime)


def parse_one(body: bytes, topic: str | None) -> Message:
    """Return the message of a structured event. Raises Unreadable."""
    try:
        return _structured(_one.decode(body), topic)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"the body is no CloudEvent in JSON: {error}") from error


def parse_all(body: bytes, topic: str | None) -> tuple[Message, ...]:
    """Return the messages of a batch of events. Raises Unreadable."""
    try:
        return tuple(_structured(event, topic) for event in _many.decode(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"the body is no batch of CloudEvents in JSON: {error}") from error


def message_of(
    event: Mapping[str, str],
    body: bytes,
    content_type: str | None,
    topic: str | None,
    message_id: str | None = None,
) -> Message:
    """Return the message of context attributes as texts, and of the data.

    `message_id` takes precedence over theirs. Raises Unreadable.
    """
    try:
        return Message(
            message_id=message_id or event.get("pbmessageid") or event["id"],
            body=body,
            content_type=content_type,
            key=event.get("pbkey", event.get("partitionkey")),
            attributes=_attributes(event, topic),
            publish_time=_moment(event.get("pbpublishtime", event.get("time"))),
            attempt=_number(event.get("pbattempt")),
            partition=_number(event.get("pbpartition")),
            offset=_number(event.get("pboffset")),
            traceparent=event.get("pbtraceparent", event.get("traceparent")),
            tracestate=event.get("tracestate"),
            event=event,
        )
    except (msgspec.DecodeError, KeyError, ValueError) as error:
        raise Unreadable(f"the CloudEvent lacks something: {error}") from error


def body_of(data: msgspec.Raw, encoded: bytes | None, content_type: str | None) -> bytes:
    """Return the bytes of `data` or `data_base64`. Raises msgspec.DecodeError."""
    if encoded is not None:
        return encoded
    raw = bytes(data)
    if raw.startswith(b'"') and not is_json(content_type):
        return msgspec.json.decode(raw, type=str).encode("utf-8")
    return raw


def is_json(content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _structured(members: _Members, topic: str | None) -> Message:
    data = members.pop("data", msgspec.Raw())
    encoded = members.pop("data_base64", None)
    event = {name: _text(value) for name, value in members.items()}
    content_type = event.get("datacontenttype")
    plain = None if encoded is None else msgspec.json.decode(encoded, type=bytes)
    return message_of(event, body_of(data, plain, content_type), content_type, topic)


def _text(value: msgspec.Raw) -> str:
    """Return a context attribute's canonical text."""
    found: Any = msgspec.json.decode(value)
    return found if isinstance(found, str) else bytes(value).decode()


def _attributes(event: Mapping[str, str], topic: str | None) -> dict[str, str]:
    if "pbmessageid" in event:
        own = _OURS | {"data", "data_base64", "datacontenttype"}
        found = {f"ce-{name}": value for name, value in event.items() if name not in own}
        return found | _names.decode(event.get("pbattributes", "{}"))
    attributes = {name: value for name, value in event.items() if name not in _KNOWN}
    if event.get("type", TYPE) != TYPE:
        attributes["ce-type"] = event["type"]
    if topic is not None and event.get("source", "") != f"/topics/{topic}":
        attributes["ce-source"] = event["source"]
    if event.get("subject") != event.get("partitionkey"):
        attributes["ce-subject"] = event["subject"]
    if "pbattributes" in event:
        attributes |= _names.decode(event["pbattributes"])
    return attributes


def _moment(text: str | None) -> datetime | None:
    return None if text is None else _time.decode(msgspec.json.encode(text))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
