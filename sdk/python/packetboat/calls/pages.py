"""Pages of messages in binary, and ack ids that name several messages of one.

A server that knows pages answers a pull with one if it accepts that; others answer JSON. The
messages are the same, whichever form they came in. docs/guides/pull.md has the form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from packetboat.codec import is_json
from packetboat.models import ItemFailure, Message, Settled

PAGE_TYPE = "application/vnd.packetboat.page"
ACCEPT = f"{PAGE_TYPE}, application/json"
VERSION = 1
MESSAGE_ID_CHARS = 40
MAX_ID_CHARS = 1024
"""The most characters of an ack id in a request."""
_EARLIER = "an ack id has 72 characters"
"""The detail with which servers before 0.3.0 refuse ack ids of pages."""
_EPOCH = datetime.fromtimestamp(0, UTC)
_TEXT_TYPES = ("application/x-www-form-urlencoded", "application/x-ndjson")
_MAX_KINDS = 1024
_JSON, _TEXT, _BINARY = "json", "text", "binary"
_NO_DATA = msgspec.Raw(b"")


class _Content(msgspec.Struct, array_like=True, gc=False):
    """A message of a page, as far as it is read here."""

    data: bytes
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] | None = None
    publisher_id: str | None = None
    priority: int = 0
    scheduled_for_us: int = 0
    ttl_ms: int = 0
    unused_8: None = None
    traceparent: str | None = None
    unused_10: None = None
    tracestate: str | None = None


class _Part(msgspec.Struct, array_like=True, gc=False):
    token: str | None
    partition: int
    runs: list[tuple[int, int, int, int]]
    message_ids: str
    messages: list[_Content]


class _Page(msgspec.Struct, array_like=True):
    version: int
    parts: list[_Part]


_page = msgspec.msgpack.Decoder(_Page)
_raw = msgspec.json.Decoder(msgspec.Raw)
_encode = msgspec.json.Encoder().encode
_kinds: dict[str, str] = {}


def is_page(body: bytes) -> bool:
    """Return whether the body of a pull's answer is a page; otherwise it is JSON."""
    return body[:1] not in (b"{", b"")


def read_page(body: bytes) -> list[Message]:
    """Return the messages of a page. Raise msgspec.MsgspecError for another body."""
    page = _page.decode(body)
    if page.version != VERSION:
        raise msgspec.ValidationError(f"a page of version {page.version}")
    messages: list[Message] = []
    for part in page.parts:
        messages += _messages(part)
    return messages


def _messages(part: _Part) -> Iterator[Message]:
    token, partition, ids = part.token, part.partition, part.message_ids
    contents = enumerate(part.messages)
    for first, count, attempt, time_us in part.runs:
        published = _EPOCH + timedelta(microseconds=time_us)
        for offset, (number, content) in zip(range(first, first + count), contents, strict=False):
            data, other = _data(content.data, content.content_type)
            at = number * MESSAGE_ID_CHARS
            yield Message(
                data=data,
                data_base64=other,
                content_type=content.content_type,
                key=content.key,
                attributes=content.attributes or {},
                publisher_id=content.publisher_id,
                priority=content.priority,
                traceparent=content.traceparent,
                tracestate=content.tracestate,
                message_id=ids[at : at + MESSAGE_ID_CHARS],
                publish_time=published,
                partition=partition,
                offset=offset,
                ack_id=None if token is None else f"{token}.{number}",
                attempt=attempt,
            )


def _data(data: bytes, content_type: str | None) -> tuple[msgspec.Raw, bytes | None]:
    """Return a body as `data` or as `data_base64` has it, by the same rules as servers."""
    kind = _BINARY if content_type is None else _kinds.get(content_type) or _kind(content_type)
    try:
        if kind is _TEXT:
            return msgspec.Raw(_encode(data.decode())), None
        if kind is _JSON:
            data.decode()  # the JSON reader does not look into strings for bad UTF-8
            return _raw.decode(data), None
    except (ValueError, msgspec.DecodeError, RecursionError):
        pass
    return _NO_DATA, data


def _kind(content_type: str) -> str:
    essence, _, parameters = content_type.partition(";")
    essence, parameters = essence.strip().lower(), parameters.lower()
    utf8 = "charset" not in parameters or "utf-8" in parameters
    if is_json(content_type):
        kind = _JSON
    elif utf8 and (essence.startswith("text/") or essence in _TEXT_TYPES):
        kind = _TEXT
    else:
        kind = _BINARY
    if len(_kinds) >= _MAX_KINDS:
        _kinds.clear()
    _kinds[content_type] = kind
    return kind


class JoinedIds(NamedTuple):
    """Ack ids as they are sent: those of one page together.

    `places` has the places in the given ids of what each sent id names, by number in the page; for
    an id that is sent as it was given the number is -1.
    """

    texts: list[str]
    places: list[dict[int, list[int]]]

    def failures(self, found: Iterable[ItemFailure], given: Sequence[str]) -> list[ItemFailure]:
        """Return failures by their places in the given ids."""
        failures: list[ItemFailure] = []
        for failure in found:
            of = self.places[failure.index]
            number = -1
            if failure.ack_id is not None and failure.ack_id != self.texts[failure.index]:
                number = int(failure.ack_id.rpartition(".")[2])
            failed = of[number] if number in of else [at for some in of.values() for at in some]
            failures += [replace(failure, index=at, ack_id=given[at]) for at in failed]
        return sorted(failures, key=lambda failure: failure.index)


def join_ids(given: Sequence[str]) -> JoinedIds:
    """Return ack ids with those of one page together, in as few ids as fit."""
    joined = JoinedIds([], [])
    pages: dict[str, dict[int, list[int]]] = {}
    for at, ack_id in enumerate(given):
        token, dot, number = ack_id.partition(".")
        if dot and number.isdecimal():
            pages.setdefault(token, {}).setdefault(int(number), []).append(at)
        else:
            joined.texts.append(ack_id)
            joined.places.append({-1: [at]})
    for token, places in pages.items():
        part: dict[int, list[int]] = {}
        text = ""
        for first, last in _ranges(sorted(places)):
            more = f"{first}-{last}" if last > first else str(first)
            if text and len(token) + len(text) + len(more) + 2 > MAX_ID_CHARS:
                joined.texts.append(f"{token}.{text}")
                joined.places.append(part)
                part, text = {}, ""
            text = f"{text},{more}" if text else more
            part |= {number: places[number] for number in range(first, last + 1)}
        joined.texts.append(f"{token}.{text}")
        joined.places.append(part)
    return joined


def unknown_pages(settled: Settled) -> list[int]:
    """Return the places of the ids whose pages the server does not know, being an earlier one."""
    return [
        failure.index
        for failure in settled.failures
        if failure.slug == "bad-ack-id"
        and failure.detail == _EARLIER
        and "." in (failure.ack_id or "")
    ]


def settled_again(settled: Settled, places: Sequence[int], again: Settled) -> Settled:
    """Return a result whose failures at some places were settled in another way."""
    late = [replace(failure, index=places[failure.index]) for failure in again.failures]
    failures = [one for one in settled.failures if one.index not in set(places)] + late
    failures.sort(key=lambda failure: failure.index)
    return replace(settled, count=settled.count + again.count, failures=tuple(failures))


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each range of ascending numbers."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
