"""CloudEvents 1.0 that are published, in the three modes of the HTTP binding, become messages.

    binary       context attributes in `ce-` headers, the data is the body
    structured   one JSON object, of the type application/cloudevents+json
    batched      an array of such objects, of the type application/cloudevents-batch+json

All three make the same message (`edge/cloud_event.py`). If the request gives no key, the extension
`partitionkey` becomes the message's key. The extension `traceparent` becomes the trace context in
the same way.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from edge import cloud_event
from edge.cloud_event import LITERALS, MAX_INTEGER, MIN_INTEGER, PREFIX, fault_of
from edge.problem import FieldError, Problem, invalid, refuse
from openapi.publish import MAX_ID_BYTES
from schemas.definition import is_json
from store_nodes.record_batch import Message

MAX_CONTEXT_BYTES = 1024 * 1024
"""Bytes of one event's JSON without its data: more than its 100 attributes can have."""
MAX_LITERAL_CHARS = 20
LITERAL_RULE = f"must be a string, true, false, or an integer from {MIN_INTEGER} to {MAX_INTEGER}."
MAX_ITEMS = 1_000_000
_ABSENT = msgspec.Raw()
_NULL = b"null"
_QUOTE = 34
_START = re.compile(rb"[ \t\r\n]*[{\[]")


class BodyKind(enum.Enum):
    """The kind of body that the content type of a request announces."""

    PLAIN = "plain"
    FORM = "form"
    EVENT = "event"
    EVENTS = "events"


_KINDS = {
    "application/x-www-form-urlencoded": BodyKind.FORM,
    "application/cloudevents+json": BodyKind.EVENT,
    "application/cloudevents-batch+json": BodyKind.EVENTS,
}


class Parts(msgspec.Struct, gc=False):
    """The members of an event in JSON that are read before the others."""

    data: msgspec.Raw = _ABSENT
    data_base64: msgspec.Raw = _ABSENT
    partitionkey: msgspec.Raw = _ABSENT


class JsonEvent(NamedTuple):
    """One event of a batch, with the fields of other batches' items that decoding uses."""

    raw: bytes
    parts: Parts
    key: str | None
    idempotency_key: None = None
    delay_seconds: None = None
    deliver_at: None = None


_parts = msgspec.json.Decoder(Parts)
_parts_of_all = msgspec.json.Decoder(list[Parts])
_raw_items = msgspec.json.Decoder(list[msgspec.Raw])
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)
_base64 = msgspec.json.Decoder(bytes)
_any = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(msgspec.Raw)


def kind_of(content_type: str) -> BodyKind:
    if content_type == "application/json":
        return BodyKind.PLAIN
    return _KINDS.get(content_type.partition(";")[0].strip().lower(), BodyKind.PLAIN)


def is_json_body(data: bytes) -> bool:
    """Return whether the data is one JSON object or array and nothing else, without building
    values.
    """
    if _START.match(data) is None:
        return False
    try:
        data.decode("utf-8")
        _raw.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def read_binary(message: Message, named: dict[str, str]) -> None:
    """Add the `ce-` headers of a request, by their whole names, to the attributes of its message.

    With an id or a version they are an event, whose values are percent-encoded; else they are
    attributes as they stand. Raises a 422 Problem.
    """
    if "ce-specversion" in named or "ce-id" in named:
        named = {name: _decoded(name, value) for name, value in named.items()}
        _take_content_type(message, named)
        fault = fault_of(cloud_event.context_of(named))
        if fault is not None:
            refuse(PREFIX + fault.name, fault.detail)
        _take_extensions(message, named)
    _add(message, named)


def read_structured(message: Message, body: bytes) -> None:
    """Make the message that of the event in `body`. Raises a 400 or 422 Problem."""
    try:
        body.decode("utf-8")
        parts = _parts.decode(body)
    except msgspec.ValidationError:
        raise _not_an_event("(body)", "must be a JSON object.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise malformed() from None
    _read_event(message, body, parts)


def events_of(body: bytes, single: bool) -> list[JsonEvent]:
    """Return the events of a batch, or the one of a structured request.

    Raises a 400, 413 or 422 Problem if the body as a whole is wrong.
    """
    if body.count(b"{") > MAX_ITEMS:
        raise Problem.of("batch-too-large", f"A batch has at most {MAX_ITEMS} objects.")
    try:
        body.decode("utf-8")
        if single:
            parts = [_parts.decode(body)]
            return [JsonEvent(body, parts[0], _key_of(parts[0]))]
        parts = _parts_of_all.decode(body)
        raws = _raw_items.decode(body)
    except msgspec.ValidationError:
        detail = "must be a JSON object." if single else "must be a JSON array of objects."
        raise _not_an_event("(body)", detail) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise malformed() from None
    return [
        JsonEvent(bytes(raw), part, _key_of(part)) for raw, part in zip(raws, parts, strict=True)
    ]


def message_of(event: JsonEvent) -> Message:
    """Return the message of one event of a batch. Raises a 422 Problem."""
    message = Message(b"")
    _read_event(message, event.raw, event.parts)
    return message


def _read_event(message: Message, raw: bytes, parts: Parts) -> None:
    data_bytes = len(memoryview(parts.data)) + len(memoryview(parts.data_base64))
    if len(raw) - data_bytes > MAX_CONTEXT_BYTES:
        raise _not_an_event("(body)", f"at most {MAX_CONTEXT_BYTES} bytes beside the data.")
    try:
        members = _members.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise malformed() from None
    for name in ("data", "data_base64"):
        members.pop(name, None)
    context: dict[str, str] = {}
    literals: list[str] = []
    for name, value in members.items():
        text, is_literal = _context_text(name, bytes(value))
        if text is None:
            continue
        context[name] = text
        if is_literal:
            literals.append(name)
    content_type = context.pop("datacontenttype", None)
    if content_type is not None:
        _check_content_type("datacontenttype", content_type)
    fault = fault_of(context)
    if fault is not None:
        refuse(fault.name, fault.detail)
    message.data, message.content_type = _data(parts, content_type)
    named = {PREFIX + name: value for name, value in context.items()}
    _take_extensions(message, named)
    if literals:
        named[LITERALS] = " ".join(sorted(literals))
    _add(message, named)


def _context_text(name: str, value: bytes) -> tuple[str | None, bool]:
    """Return the text of a context attribute, and whether it is bare in JSON.

    The text is None for null, which counts as absent.
    """
    try:
        bounded = value[0] == _QUOTE or len(value) <= MAX_LITERAL_CHARS
        found: Any = _any.decode(value) if bounded else ...
    except (msgspec.DecodeError, RecursionError):
        raise malformed() from None
    if found is None:
        return None, False
    if isinstance(found, str):
        return found, False
    if name in (*cloud_event.REQUIRED, "subject", "time", "dataschema", "datacontenttype"):
        refuse(name, "must be a string.")
    if isinstance(found, bool):
        return ("true" if found else "false"), True
    if isinstance(found, int) and MIN_INTEGER <= found <= MAX_INTEGER:
        return str(found), True
    return refuse(name[:64], LITERAL_RULE)


def _data(parts: Parts, content_type: str | None) -> tuple[bytes, str | None]:
    """Return the data and its content type, which is JSON if an event names none."""
    data, encoded = bytes(parts.data), bytes(parts.data_base64)
    if encoded and encoded != _NULL:
        if data and data != _NULL:
            refuse("data_base64", "give either data or data_base64.")
        try:
            return _base64.decode(encoded), content_type
        except msgspec.DecodeError:
            refuse("data_base64", "must be a string of base64.")
    if not data:
        return b"", content_type
    if content_type is None or is_json(content_type):
        return data, content_type or "application/json"
    if data == _NULL:
        return b"", content_type
    if data[0] != _QUOTE:
        refuse("data", f"must be a string where datacontenttype is {content_type[:64]!r}.")
    try:
        return _text.decode(data).encode("utf-8"), content_type
    except (msgspec.DecodeError, UnicodeEncodeError):
        refuse("data", "must be a string of Unicode text.")


def _take_content_type(message: Message, named: dict[str, str]) -> None:
    """Take Content-Type as `datacontenttype`; a header of that name may only repeat it."""
    repeated = named.pop("ce-datacontenttype", None)
    if repeated is None:
        return
    if message.content_type is None:
        _check_content_type("ce-datacontenttype", repeated)
        message.content_type = repeated
    elif repeated != message.content_type:
        refuse("ce-datacontenttype", "must be the same as Content-Type, or left out.")


def _take_extensions(message: Message, named: Mapping[str, str]) -> None:
    """Use two known extensions for the message's key and trace, unless the request gives its
    own.
    """
    if message.key is None:
        message.key = named.get("ce-partitionkey")
    if message.traceparent is None:
        traceparent = named.get("ce-traceparent", "")
        if traceparent.isascii() and 0 < len(traceparent) <= MAX_ID_BYTES:
            message.traceparent = traceparent


def _add(message: Message, named: Mapping[str, str]) -> None:
    attributes = message.attributes
    if attributes is None:
        attributes = message.attributes = {}
    for name, value in named.items():
        if name in attributes:
            refuse(name[:64], f"the attribute {name[:64]!r} is given twice.")
        attributes[name] = value


def _key_of(parts: Parts) -> str | None:
    """Return the key of an event, also of a wrong one, so that later events of the key fail with
    it.
    """
    try:
        return _text.decode(parts.partitionkey) if parts.partitionkey else None
    except msgspec.DecodeError:
        return None


def _decoded(name: str, value: str) -> str:
    """Decode a header's value as section 3.1.3.2 of the HTTP binding says.

    Earlier versions of the binding put quotes around it, which are taken off.
    """
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    if "%" not in value:
        return value
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        refuse(name, "must be percent-encoded UTF-8.")


def _check_content_type(field: str, text: str) -> None:
    if not 1 <= len(text) <= MAX_ID_BYTES or not (text.isascii() and text.isprintable()):
        refuse(field, f"must be 1 to {MAX_ID_BYTES} characters of printable ASCII.")


def _not_an_event(field: str, detail: str) -> Problem:
    return invalid("The body is not a CloudEvent.", [FieldError(field, detail)])


def malformed() -> Problem:
    return Problem.of("malformed-body", "The body of a CloudEvent is JSON in UTF-8.")
