"""The body of `…/messages:batch` → messages, with an error per item that is wrong.

JSON `{"messages": [item, …]}`, msgpack of the same, or NDJSON with an item per line. The whole body
is decoded in one typed call. Only if that fails is it decoded item by item, to name the wrong ones
while the others are published. `data` keeps its bytes: JSON is stored as it was written.

An item's `data` becomes:

    content_type absent   a string → text/plain, anything else → application/json
    a JSON type           any value, as JSON
    any other type        must be a string, stored as UTF-8

In msgpack `data` may also be bytes, which are stored as they are.

A batch of CloudEvents is an array of events in JSON (`cloud_events`); an item whose content type is
that of one event in JSON is read as such an event.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from edge.attributes import check_attributes, longer_than
from edge.decode_errors import field_error, not_json
from edge.large_bodies import SMALL_BYTES, dear, read_in_worker
from edge.problem import FieldError, Problem, ProblemForm, invalid, preceding_item_failed, refuse
from edge.process_pool import ProcessPool
from openapi import publish as contract
from openapi.consume import Output
from openapi.publish import MAX_BATCH_MESSAGES, MAX_ID_BYTES, MAX_KEY_BYTES
from publish_forwarder import cloud_events, delays
from publish_forwarder.cloud_events import BodyKind
from publish_forwarder.delays import Delay
from publish_forwarder.headers import (
    MAX_TRACESTATE_BYTES,
    Metadata,
    trace_text,
)
from publish_forwarder.ttl import ttl_ms
from store_nodes.record_batch import Message

MAX_MESSAGE_BYTES = 10 * 1024 * 1024
MAX_BATCH_DATA_BYTES = 10 * 1024 * 1024
MAX_BODY_BYTES = 14 * 1024 * 1024
"""Bytes of a body: 10 MiB in base64, and room for the rest."""
MAX_JSON_OBJECTS = 1_000_000
"""Objects in a JSON body: it bounds the cost of decoding a body full of `{}` before items are
counted.
"""

JSON_TYPES = frozenset({"application/json"})
NDJSON_TYPES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
MSGPACK_TYPES = frozenset({"application/msgpack", "application/x-msgpack"})

Entry = Message | Problem


class Item(contract.BatchItem, kw_only=True, gc=False):
    """An item with the encoded bytes of its data."""

    data: msgspec.Raw = msgspec.Raw()


class OutputItem(Output, kw_only=True, gc=False):
    """A message of an ack with the encoded bytes of its data."""

    data: msgspec.Raw = msgspec.Raw()


def _body_of(item: Any) -> type[contract.Batch]:
    """Return the class of a batch whose items are read as `item`. Their number is checked later."""
    messages = ("messages", list.__class_getitem__(item))
    body = msgspec.defstruct("Body", [messages], bases=(contract.Batch,))
    assert issubclass(body, contract.Batch)
    return body


class _KeyOnly(msgspec.Struct):
    key: str | None = None


class _Failed(NamedTuple):
    """A wrong item, with its key as far as that can be read."""

    problem: Problem
    key: str | None


_Decoder = msgspec.json.Decoder[Any] | msgspec.msgpack.Decoder[Any]
_Items = Sequence[Any]
"""Items of a body: each an Item, an event or a _Failed."""
_Body, _RawBody = _body_of(Item), _body_of(msgspec.Raw)
_json_body = msgspec.json.Decoder(_Body)
_json_raw_body = msgspec.json.Decoder(_RawBody)
_json_item = msgspec.json.Decoder(Item)
_json_key = msgspec.json.Decoder(_KeyOnly)
_json_text = msgspec.json.Decoder(str)
_json_encoder = msgspec.json.Encoder()
_msgpack_body = msgspec.msgpack.Decoder(_Body)
_msgpack_raw_body = msgspec.msgpack.Decoder(_RawBody)
_msgpack_item = msgspec.msgpack.Decoder(Item)
_msgpack_key = msgspec.msgpack.Decoder(_KeyOnly)
_MSGPACK_START = b"\x81\xa8messages"
_msgpack_any: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()
_msgpack_bytes = msgspec.msgpack.Decoder(bytes)
_BINARY = frozenset({0xC4, 0xC5, 0xC6})
"""First bytes of a value in MessagePack that is bytes."""
_LINE = re.compile(rb"[^\s][^\n]*")


class Batch(NamedTuple):
    """The items of a body in order, with the delays by index."""

    entries: list[Entry]
    delays: dict[int, Delay]


class ParsedBatch(msgspec.Struct, array_like=True):
    """A batch in MessagePack: an item is a message or, by its index, a problem."""

    messages: list[Message | None]
    problems: dict[int, ProblemForm]
    delays: dict[int, Delay]

    def batch(self) -> Batch:
        entries = [
            self.problems[index].problem() if message is None else message
            for index, message in enumerate(self.messages)
        ]
        return Batch(entries, self.delays)


async def read(
    process_pool: ProcessPool | None, tenant_id: bytes, body: bytes, metadata: Metadata
) -> Batch:
    """Decode a body, in a worker process if that takes long.

    Raises a Problem, also with 413 or 429.
    """
    if not dear(body):
        with contextlib.suppress(_HoldsMany):
            return decode(body, metadata, here=True)
    given = msgspec.msgpack.encode(metadata.message), metadata.kind.value
    return (
        await read_in_worker(process_pool, tenant_id, ParsedBatch, parsed, body, *given)
    ).batch()


def parsed(body: bytes, common: bytes, kind: str) -> ParsedBatch:
    """Decode a body in a worker process; return it in a form for MessagePack."""
    metadata = Metadata()
    metadata.message = msgspec.msgpack.decode(common, type=Message)
    metadata.kind = BodyKind(kind)
    entries, delays_of = decode(body, metadata)
    problems = {i: entry.form() for i, entry in enumerate(entries) if isinstance(entry, Problem)}
    messages = [None if isinstance(entry, Problem) else entry for entry in entries]
    return ParsedBatch(messages, problems, delays_of)


def decode(body: bytes, metadata: Metadata, *, here: bool = False) -> Batch:
    """Decode a body; raises a Problem if the body as a whole is wrong.

    With `here` it raises _HoldsMany for a long body in MessagePack that holds much besides text and
    bytes, which `dear` cannot see.
    """
    kind = _kind(metadata)
    to_message: Callable[[Any], Message]
    items: _Items
    if metadata.kind in (BodyKind.EVENT, BodyKind.EVENTS):
        items = cloud_events.events_of(body, metadata.kind is BodyKind.EVENT)
        to_message = _event_message
    elif kind in JSON_TYPES:
        items, to_message = _from_json(body), json_message
    elif kind in NDJSON_TYPES:
        items, to_message = _from_lines(body), json_message
    elif kind in MSGPACK_TYPES:
        items, to_message = _from_msgpack(body), _msgpack_message
        if here and len(body) > SMALL_BYTES and _structured_bytes(items) > SMALL_BYTES:
            raise _HoldsMany
    else:
        raise _unsupported(kind)
    _check_count(len(items))
    common = metadata.message
    entries: list[Message | _Failed] = []
    delays_of: dict[int, Delay] = {}
    total_bytes = 0
    for index, item in enumerate(items):
        if isinstance(item, _Failed):
            entries.append(item)
            continue
        try:
            message = to_message(item)
            if item.idempotency_key is not None:
                _check_text("idempotency_key", item.idempotency_key, MAX_ID_BYTES)
                message.idempotency_key = item.idempotency_key
            if item.delay_seconds is not None or item.deliver_at is not None:
                delay = _delay(item)
                if delay is not None:
                    delays_of[index] = delay
        except Problem as problem:
            entries.append(_Failed(problem, item.key))
            continue
        message.publisher_id = common.publisher_id
        own = isinstance(item, Item) and item.traceparent is not None
        if not own and common.traceparent is not None:
            message.traceparent, message.tracestate = common.traceparent, common.tracestate
        total_bytes += len(message.data)
        entries.append(message)
    if total_bytes > MAX_BATCH_DATA_BYTES:
        raise _too_large(f"a batch has at most {MAX_BATCH_DATA_BYTES} bytes of data.")
    return Batch(_fail_followers(entries), delays_of)


def _kind(metadata: Metadata) -> str:
    content_type = metadata.message.content_type or "application/json"
    return content_type.partition(";")[0].strip().lower()


class _HoldsMany(Exception):
    pass


def _structured_bytes(items: _Items) -> int:
    """Return the bytes of data that is neither text nor bytes."""
    given = [memoryview(item.data) for item in items if isinstance(item, Item)]
    return sum(len(raw) for raw in given if raw and not _is_text(raw[0]) and raw[0] not in _BINARY)


def _is_text(first: int) -> bool:
    """Return whether a value of MessagePack that begins with this byte is a string."""
    return 0xA0 <= first <= 0xBF or 0xD9 <= first <= 0xDB


def _from_json(body: bytes) -> _Items:
    if body.count(b"{") > MAX_JSON_OBJECTS:
        raise _too_large(f"a JSON batch has at most {MAX_JSON_OBJECTS} objects.")
    try:
        if not body.isascii():
            body.decode("utf-8")
        items: _Items = _json_body.decode(body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _one_by_one(body, _json_raw_body, _json_item, _json_key)
    return items


def _from_msgpack(body: bytes) -> _Items:
    _check_count(_msgpack_count(body))
    try:
        items: _Items = _msgpack_body.decode(body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _one_by_one(body, _msgpack_raw_body, _msgpack_item, _msgpack_key)
    return items


def _one_by_one(body: bytes, whole: _Decoder, item: _Decoder, key: _Decoder) -> _Items:
    """Decode item by item, because some item is wrong; raises a Problem if the whole body is."""
    try:
        raws: list[msgspec.Raw] = whole.decode(body).messages
        if isinstance(whole, msgspec.json.Decoder):
            body.decode("utf-8")
    except msgspec.ValidationError as error:
        raise invalid("The body is not a batch.", [field_error(str(error), "(item)")]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(error) from error
    _check_count(len(raws))
    return [_decode_item(bytes(raw), item, key) for raw in raws]


def _from_lines(body: bytes) -> _Items:
    if body.count(b"\n") <= MAX_BATCH_MESSAGES:
        try:
            if not body.isascii():
                body.decode("utf-8")
            return _json_item.decode_lines(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    items: list[Item | _Failed] = []
    for line in _lines(body):
        _check_count(len(items) + 1)
        items.append(_decode_item(line, _json_item, _json_key))
    return items


def _lines(body: bytes) -> Iterator[bytes]:
    """Yield the lines that are not blank, without splitting the whole body at once."""
    for line in _LINE.finditer(body):
        yield line[0].rstrip()


def _decode_item(raw: bytes, decoder: _Decoder, key: _Decoder) -> Any:
    try:
        if isinstance(decoder, msgspec.json.Decoder) and not raw.isascii():
            raw.decode("utf-8")
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        problem = invalid("The item is not a message.", [field_error(str(error), "(item)")])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = _malformed(error)
    try:
        return _Failed(problem, key.decode(raw).key)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Failed(problem, None)


def _fail_followers(entries: list[Message | _Failed]) -> list[Entry]:
    """Fail the items of a key that follow a failed one, because publishing them would break the
    order.
    """
    broken: set[str] = set()
    result: list[Entry] = []
    for entry in entries:
        if isinstance(entry, _Failed):
            if entry.key is not None:
                broken.add(entry.key)
            result.append(entry.problem)
        elif broken and entry.key in broken:
            result.append(preceding_item_failed())
        else:
            result.append(entry)
    return result


def json_message(item: Item | OutputItem) -> Message:
    """Return the message of an item in JSON; raise a 413 or 422 Problem."""
    content_type = item.content_type
    raw = item.data
    if not raw:
        data = _base64_only(item)
    elif item.data_base64 is not None:
        refuse("data_base64", "give either data or data_base64.")
    elif content_type is None:
        data = bytes(raw)
        if data[0] == 34:
            data, content_type = _json_text_bytes(data), "text/plain"
        else:
            content_type = "application/json"
    elif is_json(content_type):
        data = bytes(raw)
    else:
        data = bytes(raw)
        if data[0] != 34:
            refuse("data", f"must be a string where content_type is {content_type[:64]!r}.")
        data = _json_text_bytes(data)
    return _message(item, data, content_type)


def _msgpack_message(item: Item) -> Message:
    content_type = item.content_type
    raw = memoryview(item.data)
    if not raw:
        data = _base64_only(item)
    elif item.data_base64 is not None:
        refuse("data_base64", "give either data or data_base64.")
    elif raw[0] in _BINARY:
        data = _msgpack_bytes.decode(raw)
    elif content_type is not None and is_json(content_type):
        data = _as_json(raw)
    elif _is_text(raw[0]):
        data = _msgpack_value(raw).encode("utf-8")
        content_type = content_type or "text/plain"
    elif content_type is None:
        data, content_type = _as_json(raw), "application/json"
    else:
        refuse("data", f"must be a string or bytes where content_type is {content_type[:64]!r}.")
    return _message(item, data, content_type)


def _event_message(event: cloud_events.JsonEvent) -> Message:
    message = cloud_events.message_of(event)
    check_event(message)
    return message


def check_event(message: Message) -> None:
    """Check the limits of a message made from an event in JSON. Raises a 413 or 422 Problem."""
    if len(message.data) > MAX_MESSAGE_BYTES:
        raise _too_large(f"a message has at most {MAX_MESSAGE_BYTES} bytes.")
    assert message.attributes is not None
    check_attributes(message.attributes, "attributes")


def _message(item: Item | OutputItem, data: bytes, content_type: str | None) -> Message:
    if len(data) > MAX_MESSAGE_BYTES:
        raise _too_large(f"a message has at most {MAX_MESSAGE_BYTES} bytes.")
    if item.key is not None:
        _check_text("key", item.key, MAX_KEY_BYTES)
    if item.content_type is not None:
        _check_text("content_type", item.content_type, MAX_ID_BYTES)
        if not item.content_type.isprintable() or not item.content_type.isascii():
            refuse("content_type", "must be printable ASCII.")
    if item.attributes is not None:
        check_attributes(item.attributes, "attributes")
    message = Message(
        data,
        content_type,
        item.key,
        item.attributes,
        priority=item.priority,
        ttl_ms=ttl_ms("ttl_seconds", item.ttl_seconds) if item.ttl_seconds is not None else 0,
        traceparent=_trace(item.traceparent, MAX_ID_BYTES),
        tracestate=_trace(item.tracestate, MAX_TRACESTATE_BYTES),
    )
    kind = BodyKind.PLAIN if content_type is None else cloud_events.kind_of(content_type)
    if kind is BodyKind.EVENT:
        cloud_events.read_structured(message, data)
        check_event(message)
    elif kind is BodyKind.EVENTS:
        refuse("content_type", "a batch of events is the body of a request, not of one message.")
    return message


def _trace(text: str | None, limit_bytes: int) -> str | None:
    return None if text is None else trace_text(text, limit_bytes)


def _delay(item: Item) -> Delay | None:
    if item.deliver_at is None:
        assert item.delay_seconds is not None
        return delays.after("delay_seconds", item.delay_seconds)
    if item.delay_seconds is not None:
        refuse("deliver_at", "give either delay_seconds or deliver_at.")
    return delays.at("deliver_at", item.deliver_at, delays.now_us())


def is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _base64_only(item: Item | OutputItem) -> bytes:
    if item.data_base64 is None:
        refuse("data", "is required (or data_base64).")
    return item.data_base64


def _json_text_bytes(data: bytes) -> bytes:
    if b"\\" not in data:
        return data[1:-1]
    try:
        return _json_text.decode(data).encode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError):
        refuse("data", "is not a string of Unicode text.")


def _msgpack_value(raw: memoryview) -> Any:
    try:
        return _msgpack_any.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(error) from error


def _as_json(raw: memoryview) -> bytes:
    """Return a value of MessagePack as JSON."""
    value = _msgpack_value(raw)
    try:
        return _json_encoder.encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        refuse("data", "cannot be JSON: it has a value or a key that JSON does not have.")


def _check_text(field: str, text: str, limit_bytes: int) -> None:
    if not text:
        refuse(field, "must not be empty.")
    if longer_than(text, limit_bytes):
        refuse(field, f"at most {limit_bytes} bytes of UTF-8.")


def _msgpack_count(body: bytes) -> int:
    """Return the number of items that the array claims to have, before anything is decoded."""
    at = len(_MSGPACK_START)
    if body.startswith(_MSGPACK_START) and len(body) > at:
        first = body[at]
        if first & 0xF0 == 0x90:
            return first & 0x0F
        if first == 0xDC:
            return int.from_bytes(body[at + 1 : at + 3], "big")
        if first == 0xDD:
            return int.from_bytes(body[at + 1 : at + 5], "big")
    detail = 'must be a map with the one key "messages" and an array.'
    raise invalid("The body is not a batch.", [FieldError("messages", detail)])


def _check_count(count: int) -> None:
    if count == 0:
        raise invalid("The batch is empty.", [FieldError("messages", "at least one message.")])
    if count > MAX_BATCH_MESSAGES:
        raise _too_large(f"a batch has at most {MAX_BATCH_MESSAGES} messages.")


def _too_large(detail: str) -> Problem:
    return Problem.of("batch-too-large", detail.capitalize())


def _malformed(error: Exception) -> Problem:
    detail = f"The body cannot be read: {not_json(error)}."
    return Problem.of("malformed-body", detail)


def _unsupported(kind: str) -> Problem:
    supported = ", ".join(sorted(JSON_TYPES | NDJSON_TYPES | MSGPACK_TYPES))
    return Problem.of(
        "content-type-unsupported",
        f"A batch is one of {supported}; not {kind[:64]!r}.",
    )
