"""Reads the headers of a publish as the metadata of a message, and limits both.

Header values are ASCII; `Packetboat-Key`, `-Publisher-Id` and `-Attributes` are percent-encoded
UTF-8. A `Packetboat-` header that is not known is refused rather than dropped: a misspelt
`Packetboat-Kye` would lose the order the publisher asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import get_args
from urllib.parse import unquote

import msgspec

from edge.attributes import check_attributes, longer_than
from edge.decode_errors import field_error, not_json
from edge.problem import FieldError, Problem, refuse
from openapi.publish import (
    DURABILITY,
    MAX_ID_BYTES,
    MAX_KEY_BYTES,
    MAX_PRIORITY,
    MAX_SEQUENCE,
)
from publish_forwarder import cloud_events, delays
from publish_forwarder.cloud_events import BodyKind
from publish_forwarder.delays import Delay
from publish_forwarder.idempotency import Producer
from publish_forwarder.ttl import ttl_ms_of_text
from schemas.message_check import VERSION_ATTRIBUTE
from store_nodes.record_batch import Message
from store_nodes.wire import Durability

MAX_HEADER_BYTES = 48 * 1024
MAX_TRACESTATE_BYTES = 512
"""Bytes of a tracestate that W3C Trace Context asks everybody to keep; a longer one is left out."""

DURABILITIES = {name.encode(): Durability[name.upper()] for name in get_args(DURABILITY.kind)}

_OURS = b"packetboat-"
_ATTRIBUTE = b"packetboat-attr-"
_CLOUD_EVENT = b"ce-"
_PRODUCER = b"packetboat-producer"
_SEQUENCE = b"packetboat-sequence"
_PRODUCER_ID = re.compile(rb"[0-9A-Fa-f]{32}")
_attributes_decoder = msgspec.json.Decoder(dict[str, str])


class Metadata:
    """The metadata that the headers of one request give, before its body is read."""

    __slots__ = ("content_length", "delay", "durability", "kind", "message")

    def __init__(self) -> None:
        """Begin with the metadata of a request without headers."""
        self.message = Message(b"")
        self.durability = Durability.QUORUM
        self.content_length: int | None = None
        self.delay: Delay | None = None
        self.kind = BodyKind.PLAIN


class BatchMetadata(Metadata):
    """The metadata of a batch, with its producer and sequence if the request names them."""

    __slots__ = ("producer",)

    def __init__(self) -> None:
        super().__init__()
        self.producer: Producer | None = None


def parse(headers: Iterable[tuple[bytes, bytes]]) -> Metadata:
    """Return the metadata of a single message; raise a 422 or 431 Problem for bad headers."""
    metadata = Metadata()
    events: dict[str, str] | None = None
    total = 0
    for name, value in headers:
        total += len(name) + len(value)
        reader = _READERS.get(name)
        if reader is not None:
            reader(metadata, value)
        elif name in _OTHERS:
            continue
        elif name.startswith(_OURS):
            _read_ours(metadata.message, name, value)
        elif name.startswith(_CLOUD_EVENT):
            events = {} if events is None else events
            _keep(events, name, value)
    if total > MAX_HEADER_BYTES:
        raise Problem.of(
            "headers-too-large",
            f"The headers are over the limit of {MAX_HEADER_BYTES} bytes; publish with "
            "POST /topics/{topic}/messages:batch, where attributes are in the body.",
            extra={"limit_bytes": MAX_HEADER_BYTES},
        )
    if events is not None and metadata.kind not in (BodyKind.EVENT, BodyKind.EVENTS):
        # Beside a whole event in the body, headers only repeat its members.
        cloud_events.read_binary(metadata.message, events)
    if metadata.message.attributes is not None:
        check_attributes(metadata.message.attributes, "Packetboat-Attributes")
    return metadata


def parse_batch(headers: Iterable[tuple[bytes, bytes]]) -> BatchMetadata:
    """Return the metadata of a batch, which holds for all its messages."""
    metadata = BatchMetadata()
    producer: bytes | None = None
    sequence: int | None = None
    for name, value in headers:
        if name in _BATCH_NAMES:
            _READERS[name](metadata, value)
        elif name == _PRODUCER:
            if not _PRODUCER_ID.fullmatch(value):
                refuse("Packetboat-Producer", "must be 32 hexadecimal digits.")
            producer = bytes.fromhex(value.decode("ascii"))
        elif name == _SEQUENCE:
            if not value.isdigit() or len(value) > 19 or int(value) > MAX_SEQUENCE:
                refuse("Packetboat-Sequence", f"must be a whole number from 0 to {MAX_SEQUENCE}.")
            sequence = int(value)
        elif name.startswith((_OURS, b"idempotency-key", _CLOUD_EVENT)):
            refuse(name.decode("latin-1"), "belongs to one message: put it in the item.")
    if producer is not None and sequence is not None:
        metadata.producer = Producer(producer, sequence)
    elif producer is not None or sequence is not None:
        missing = "Packetboat-Producer" if producer is None else "Packetboat-Sequence"
        refuse(missing, "Packetboat-Producer and Packetboat-Sequence come together.")
    return metadata


def _text(name: str, value: bytes, limit_bytes: int) -> str:
    if not value:
        refuse(name, "must not be empty.")
    if len(value) > limit_bytes:
        refuse(name, f"at most {limit_bytes} bytes.")
    try:
        return value.decode("ascii")
    except UnicodeDecodeError:
        refuse(name, "must be ASCII.")


def _percent_text(name: str, value: bytes, limit_bytes: int) -> str:
    """Decode percent-encoded UTF-8; a `%` that starts no escape stands for itself."""
    text = _text(name, value, 3 * limit_bytes)
    if "%" in text:
        try:
            text = unquote(text, errors="strict")
        except UnicodeDecodeError:
            refuse(name, "must be percent-encoded UTF-8.")
    if longer_than(text, limit_bytes):
        refuse(name, f"at most {limit_bytes} bytes of UTF-8.")
    return text


def _read_content_type(metadata: Metadata, value: bytes) -> None:
    if value:
        content_type = _text("Content-Type", value, MAX_ID_BYTES)
        metadata.message.content_type = content_type
        metadata.kind = cloud_events.kind_of(content_type)


def _read_content_length(metadata: Metadata, value: bytes) -> None:
    """Take the announced length of the body; ignore one that is no number."""
    if value.isdigit():
        metadata.content_length = int(value)


def _read_content_encoding(metadata: Metadata, value: bytes) -> None:
    if value.lower() != b"identity":
        detail = "bodies are stored as they come: send it without an encoding."
        raise Problem.of(
            "content-encoding-unsupported",
            f"Content-Encoding: {detail}",
            errors=[FieldError("Content-Encoding", detail)],
        )


def _read_key(metadata: Metadata, value: bytes) -> None:
    metadata.message.key = _percent_text("Packetboat-Key", value, MAX_KEY_BYTES)


def _read_publisher_id(metadata: Metadata, value: bytes) -> None:
    metadata.message.publisher_id = _percent_text("Packetboat-Publisher-Id", value, MAX_ID_BYTES)


def _read_idempotency_key(metadata: Metadata, value: bytes) -> None:
    metadata.message.idempotency_key = _text("Idempotency-Key", value, MAX_ID_BYTES)


def trace_text(text: str, limit_bytes: int) -> str | None:
    """Return a trace's context, or None for a text that is none.

    The message is then published without it, as W3C Trace Context asks.
    """
    fits = 0 < len(text) <= limit_bytes and text.isascii() and text.isprintable()
    return text if fits else None


def _read_traceparent(metadata: Metadata, value: bytes) -> None:
    metadata.message.traceparent = trace_text(value.decode("latin-1"), MAX_ID_BYTES)


def _read_tracestate(metadata: Metadata, value: bytes) -> None:
    """Join a tracestate to those of earlier headers, which are one list."""
    before = metadata.message.tracestate
    text = value.decode("latin-1")
    whole = text if before is None else f"{before},{text}"
    metadata.message.tracestate = trace_text(whole, MAX_TRACESTATE_BYTES)


def _read_priority(metadata: Metadata, value: bytes) -> None:
    if len(value) != 1 or not value.isdigit():
        refuse("Packetboat-Priority", f"must be a whole number from 0 to {MAX_PRIORITY}.")
    metadata.message.priority = int(value)


def _read_durability(metadata: Metadata, value: bytes) -> None:
    durability = DURABILITIES.get(value)
    if durability is None:
        refuse(DURABILITY.name, f"must be one of {', '.join(get_args(DURABILITY.kind))}.")
    metadata.durability = durability


def _read_delay(metadata: Metadata, value: bytes) -> None:
    name = "Packetboat-Delay"
    _set_delay(metadata, name, delays.after_text(name, _text(name, value, MAX_ID_BYTES)))


def _read_deliver_at(metadata: Metadata, value: bytes) -> None:
    name = "Packetboat-Deliver-At"
    text = _text(name, value, MAX_ID_BYTES)
    _set_delay(metadata, name, delays.at(name, text, delays.now_us()))


def _set_delay(metadata: Metadata, name: str, delay: Delay | None) -> None:
    if metadata.delay is not None:
        refuse(name, "give either Packetboat-Delay or Packetboat-Deliver-At, once.")
    metadata.delay = delay


def _read_ttl(metadata: Metadata, value: bytes) -> None:
    name = "Packetboat-TTL"
    metadata.message.ttl_ms = ttl_ms_of_text(name, _text(name, value, MAX_ID_BYTES))


def _read_attributes(metadata: Metadata, value: bytes) -> None:
    name = "Packetboat-Attributes"
    text = _percent_text(name, value, MAX_HEADER_BYTES)
    try:
        attributes = _attributes_decoder.decode(text)
    except msgspec.ValidationError as error:
        wrong = field_error(str(error), "it")
        refuse(name, f"must be a JSON object of strings: {wrong.field} {wrong.detail}.")
    except msgspec.DecodeError as error:
        refuse(name, f"must be a JSON object of strings, percent-encoded: {not_json(error)}.")
    for attribute, attribute_value in attributes.items():
        _add_attribute(metadata.message, attribute, attribute_value, name)


def _read_schema_version(metadata: Metadata, value: bytes) -> None:
    _set_attribute(metadata.message, VERSION_ATTRIBUTE, value, b"Packetboat-Schema-Version")


def _read_ours(message: Message, name: bytes, value: bytes) -> None:
    if name.startswith(_ATTRIBUTE) and len(name) > len(_ATTRIBUTE):
        _set_attribute(message, name[len(_ATTRIBUTE) :].decode("latin-1"), value, name)
        return
    shown = name.decode("latin-1")
    refuse(shown, "is not a header of this API.")


def _set_attribute(message: Message, attribute: str, value: bytes, header: bytes) -> None:
    shown = header.decode("latin-1")
    try:
        text = value.decode("ascii")
    except UnicodeDecodeError:
        refuse(shown, "must be ASCII; Packetboat-Attributes takes any text.")
    _add_attribute(message, attribute, text, shown)


def _keep(events: dict[str, str], name: bytes, value: bytes) -> None:
    shown = name.decode("latin-1")
    if shown in events:
        refuse(shown, f"the attribute {shown[:64]!r} is given twice.")
    try:
        events[shown] = value.decode("ascii")
    except UnicodeDecodeError:
        refuse(shown, "must be ASCII: the HTTP binding of CloudEvents percent-encodes other text.")


def _add_attribute(message: Message, attribute: str, value: str, shown: str) -> None:
    if message.attributes is None:
        message.attributes = {}
    if attribute in message.attributes:
        refuse(shown, f"the attribute {attribute[:64]!r} is given twice.")
    message.attributes[attribute] = value


_READERS: dict[bytes, Callable[[Metadata, bytes], None]] = {
    b"content-type": _read_content_type,
    b"content-length": _read_content_length,
    b"content-encoding": _read_content_encoding,
    b"packetboat-key": _read_key,
    b"packetboat-publisher-id": _read_publisher_id,
    b"packetboat-priority": _read_priority,
    b"packetboat-durability": _read_durability,
    b"packetboat-attributes": _read_attributes,
    b"packetboat-delay": _read_delay,
    b"packetboat-deliver-at": _read_deliver_at,
    b"packetboat-ttl": _read_ttl,
    b"packetboat-schema-version": _read_schema_version,
    b"idempotency-key": _read_idempotency_key,
    b"traceparent": _read_traceparent,
    b"tracestate": _read_tracestate,
}
_OTHERS = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"connection",
        b"host",
        b"user-agent",
        b"x-request-id",
    }
)
"""Headers of nearly every request that are none of ours; they are skipped at once."""
_BATCH_NAMES = frozenset(
    {
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"packetboat-publisher-id",
        b"packetboat-durability",
        b"traceparent",
        b"tracestate",
    }
)
