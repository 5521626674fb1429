"""Messages as CloudEvents 1.0, bound to HTTP: binary (attributes in headers), structured (one JSON
object) and batched (an array of them).

    id       the message id         source            /topics/NAME
    type     packetboat.message     subject           the key, if there is one
    time     when it was published  datacontenttype   its content type

A message that was published as a CloudEvent is that event again: its own attributes and no others,
but for extensions that begin with `pb`. Those are the ones below, `pbmessageid` with the message
id, `pbpublishtime` with when it was published, `pbkey` with the key where it is not the
event's `partitionkey`, and `pbtraceparent` with the trace context where it is not the event's.

For other messages the above is made up. A publisher chooses type, source or subject by attributes
`ce-type`, `ce-source`, `ce-subject`. Extensions: `partitionkey`, `traceparent` and `tracestate` as
CloudEvents' own extensions define them, `pbsubscription`, `pbattempt`, `pbpartition`, `pboffset`,
and each attribute of the message whose name may be an extension's. Those whose name may not are in
`pbattributes`, as a JSON object.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from edge.cloud_event import LITERALS, PREFIX, event_of, literals_of
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import is_json, is_text

TYPE = "packetboat.message"
BATCH_TYPE = "application/cloudevents-batch+json; charset=utf-8"
STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
OCTETS = "application/octet-stream"
_CHOSEN = {"ce-type": "type", "ce-source": "source", "ce-subject": "subject"}
_EXTENSION = re.compile(r"[a-z0-9]{1,20}")
_TAKEN = frozenset(
    {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"}
    | {"data", "partitionkey", "traceparent", "tracestate", "pbsubscription", "pbattempt"}
    | {"pbpartition", "pboffset", "pbattributes"}
)
_OURS = frozenset(
    {"pbsubscription", "pbattempt", "pbpartition", "pboffset", "pbattributes"}
    | {"pbmessageid", "pbpublishtime", "pbkey", "pbtraceparent"}
)
"""The extensions of a first delivery: an event that was delivered and is published again
loses them.
"""
# Section 3.1.3.2 of the HTTP binding: what is not visible ASCII, and `"` and `%`, is encoded.
_UNSAFE = re.compile(r"[^!#$&-~]")
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_encode = msgspec.json.encode
_raw = msgspec.json.Decoder(msgspec.Raw)


def attributes_of(
    message: Message,
    *,
    message_id: str,
    time: str,
    topic: str,
    subscription: str,
    partition: int,
    offset: int,
    attempt: int,
) -> dict[str, str | int]:
    """Return the context attributes of one delivery, but for datacontenttype.

    `time` is RFC 3339.
    """
    event = _published(message, message_id, time)
    if event is None:
        event = _made_up(message, message_id, time, topic)
    event["pbsubscription"] = subscription
    event["pbattempt"] = attempt
    event["pbpartition"] = partition
    event["pboffset"] = str(offset)  # an Integer of CloudEvents has 32 bits
    return event


def _published(message: Message, message_id: str, time: str) -> dict[str, str | int] | None:
    """Return the attributes of the event that the message was published as, and of the message
    beside them.

    Returns None for a message that was no event.
    """
    context = event_of(message.attributes)
    if context is None:
        return None
    event: dict[str, str | int] = {
        name: value for name, value in context.items() if name not in _OURS
    }
    event["pbmessageid"] = message_id
    event["pbpublishtime"] = time
    if message.key is not None and message.key != context.get("partitionkey"):
        event["pbkey"] = message.key
    if message.traceparent is not None and message.traceparent != context.get("traceparent"):
        event["pbtraceparent"] = message.traceparent
    others = {
        name: value
        for name, value in (message.attributes or {}).items()
        if not name.startswith(PREFIX) and name != LITERALS
    }
    if others:
        event["pbattributes"] = _encode(others).decode()
    return event


def _made_up(message: Message, message_id: str, time: str, topic: str) -> dict[str, str | int]:
    """Return the attributes of a message that was not published as an event."""
    event: dict[str, str | int] = {
        "specversion": "1.0",
        "id": message_id,
        "source": f"/topics/{topic}",
        "type": TYPE,
        "time": time,
    }
    if message.key:
        event["partitionkey"] = event["subject"] = message.key
    if message.traceparent is not None:
        event["traceparent"] = message.traceparent
        if message.tracestate is not None:
            event["tracestate"] = message.tracestate
    if message.attributes:
        _add(event, message.attributes)
    return event


def _add(event: dict[str, str | int], attributes: Mapping[str, str]) -> None:
    others = {}
    for name, value in attributes.items():
        chosen = _CHOSEN.get(name)
        if chosen is not None and value:
            event[chosen] = value
        elif name not in _TAKEN and _EXTENSION.fullmatch(name):
            event[name] = value
        else:
            others[name] = value
    if others:
        event["pbattributes"] = _encode(others).decode()


def binary_headers(event: Mapping[str, str | int]) -> list[tuple[str, str]]:
    return [
        (f"ce-{name}", header_value(value) if isinstance(value, str) else str(value))
        for name, value in event.items()
    ]


def structured(event: Mapping[str, str | int], message: Message) -> bytes:
    """Return one JSON object, with the message's body in `data` or `data_base64`."""
    is_event = "pbmessageid" in event
    bare = literals_of(message.attributes or {}) if is_event else ()
    literals = {name: msgspec.Raw(str(event[name]).encode()) for name in bare if name in event}
    head = _encode({**event, **literals})[:-1]
    if message.content_type is not None:
        head += b',"datacontenttype":' + _encode(message.content_type)
    if is_event and not message.data:
        return head + b"}"  # an event may have no data, which is not the same as empty data
    return head + _data(message.data, message.content_type) + b"}"


def batched(events: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(events)


def header_value(text: str) -> str:
    """Percent-encoded where a header may not have it as it is."""
    return quote(text, safe=_SAFE) if _UNSAFE.search(text) else text


def _data(data: bytes, content_type: str | None) -> bytes:
    """Return the body as JSON as it was published, once it is proved whole; text as a
    string; else base64.
    """
    if content_type is not None:
        try:
            if is_json(content_type):
                data.decode()  # the reader does not look into strings for bad UTF-8
                return b',"data":' + bytes(_raw.decode(data))
            if is_text(content_type):
                return b',"data":' + _encode(data.decode())
        except (ValueError, msgspec.DecodeError, RecursionError):
            pass
    return b',"data_base64":"%b"' % b2a_base64(data, newline=False)
