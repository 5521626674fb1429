"""Renders messages as the JSON of a pull, mostly from bytes that exist already.

A JSON body is put into `data` as it was published, after one pass that proves it is whole, valid
JSON: never decoded and encoded again. Text becomes a string, another body `data_base64`. The part
that does not depend on the delivery is rendered once per message and shared by all subscriptions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from edge import message_id
from store_nodes import record_batch
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.staged import StagedIds, Where

_encode = msgspec.json.encode
_raw_json = msgspec.json.Decoder(msgspec.Raw)
_NULL = b"null"
_MAX_CACHED_TYPES = 1024
_TEXT_TYPES = frozenset({"application/x-www-form-urlencoded", "application/x-ndjson"})
_kinds: dict[str, tuple[int, bytes]] = {}
_bare: dict[tuple[bytes, int], bytes] = {}
_JSON, _TEXT, _BINARY = 0, 1, 2


class PartitionRenderer:
    """Renders messages of one lane of a partition. `staged_ids` is told where those are whose id
    is not made of their offset."""

    __slots__ = (
        "_id_prefix", "_lane", "_number", "_partition", "_staged_ids", "_staged_prefix",
        "_topic_uid",
    )  # fmt: skip

    def __init__(
        self,
        topic_uid: bytes,
        partition: int,
        staged_ids: StagedIds | None = None,
        lane: int = 0,
    ) -> None:
        self._id_prefix = message_id.prefix(topic_uid, partition).encode()
        self._staged_prefix = message_id.prefix(topic_uid, partition, message_id.FORM_STAGE)
        self._topic_uid = topic_uid
        self._number = partition
        self._lane = lane
        self._partition = b',"partition":%d,"offset":' % partition
        self._staged_ids = staged_ids

    def plain_id(self, offset: int) -> bytes:
        """Return the id of a message that was published at once."""
        return self._id_prefix + message_id.suffix(offset, self._lane).encode()

    def plain_ids(self, offsets: array[int]) -> bytes:
        """Return the ids of many offsets, one after the other, of `message_id.ID_CHARS` each."""
        return message_id.run_together(self._topic_uid, self._number, self._lane, offsets)

    def staged(self, generation: int, stage_number: int, offset: int) -> bytes:
        """Return the id of a message released from a queue of this partition."""
        number = message_id.staged_number(generation, stage_number)
        return self._remember(self._staged_prefix + message_id.suffix(number, self._lane), offset)

    def forwarded(self, origin: Mapping[str, str | int], offset: int) -> bytes | None:
        """Return the id of a message that was staged in a queue sealed before it was due,
        if it was.
        """
        text = origin.get(record_batch.ORIGIN_STAGE_ID)
        return self._remember(text, offset) if isinstance(text, str) else None

    def _remember(self, text: str, offset: int) -> bytes:
        if self._staged_ids is not None:
            self._staged_ids.put(text, Where(self._number, offset, self._lane))
        return text.encode("ascii")

    def fragment(
        self, message: Message, offset: int, publish_time: bytes, staged_id: bytes | None = None
    ) -> bytes:
        """Return the members of the JSON object that every delivery of the message shares.

        The id is that of its offset, except for messages that were staged.
        """
        data_name, data, content_type = _data(message.data, message.content_type)
        return b"".join(
            (
                b'"message_id":"',
                staged_id or self.plain_id(offset),
                data_name,
                data,
                _described(message, content_type),
                publish_time,
                self._partition,
                b"%d" % offset,
                _trace(message) if message.traceparent is not None else b"",
            )
        )


def _described(message: Message, content_type: bytes) -> bytes:
    """Return the members from the content type to the publish time, whose value follows.

    Those of messages with nothing but a content type and a priority are kept.
    """
    key, attributes, publisher_id = message.key, message.attributes, message.publisher_id
    bare = key is None and not attributes and publisher_id is None and not message.deliver_at_us
    known = _bare.get((content_type, message.priority)) if bare else None
    if known is not None:
        return known
    members = b"".join(
        (
            b',"content_type":',
            content_type,
            b',"key":',
            _NULL if key is None else _encode(key),
            b',"attributes":',
            _encode(attributes) if attributes else b"{}",
            b',"publisher_id":',
            _NULL if publisher_id is None else _encode(publisher_id),
            b',"priority":%d,"scheduled_for":' % message.priority,
            time_json(message.deliver_at_us) if message.deliver_at_us else _NULL,
            b',"publish_time":',
        )
    )
    if bare:
        if len(_bare) >= _MAX_CACHED_TYPES:
            _bare.clear()
        _bare[content_type, message.priority] = members
    return members


def _trace(message: Message) -> bytes:
    """Return the members of a message that was published within a trace."""
    members = b',"traceparent":' + _encode(message.traceparent)
    if message.tracestate is not None:
        members += b',"tracestate":' + _encode(message.tracestate)
    return members


class Deliveries(NamedTuple):
    """Delivered messages as JSON, as columns: the bytes of a message are copied once, into the
    answer."""

    fragments: list[bytes]
    endings: list[bytes]
    """The members after those of the fragments, with the brace that closes the object."""


def deliveries(
    fragments: list[bytes], ack_ids: Iterable[bytes], attempts: Iterable[int] | None
) -> Deliveries:
    """Return delivered messages; without attempts, each is in its first."""
    if attempts is None:
        endings = [b',"ack_id":"' + ack_id + b'","attempt":1}' for ack_id in ack_ids]
    else:
        endings = [
            b',"ack_id":"%b","attempt":%d}' % each for each in zip(ack_ids, attempts, strict=False)
        ]
    return Deliveries(fragments, endings)


def deliveries_without_ack_ids(fragments: list[bytes], attempts: Iterable[int]) -> Deliveries:
    """Return messages that are acked already; there are at least as many attempts."""
    endings = [
        b',"ack_id":null,"attempt":%d}' % attempt
        for attempt, _ in zip(attempts, fragments, strict=False)
    ]
    return Deliveries(fragments, endings)


def joined(parts: Sequence[Deliveries], before: bytes, between: bytes, after: bytes) -> bytes:
    """Return the JSON objects of messages, of which there is one at least, with bytes around them.

    It is one copy of what may be megabytes.
    """
    pieces: list[bytes] = []
    for fragments, endings in parts:
        of = [between + b"{"] * (3 * len(fragments))
        of[1::3] = fragments
        of[2::3] = endings
        pieces += of
    pieces[0] = before + b"{"
    pieces.append(after)
    return b"".join(pieces)


def pull_body(parts: Sequence[Deliveries]) -> bytes:
    """Return the body of a pull's answer."""
    return joined(parts, b'{"messages":[', b",", b"]}") if parts else b'{"messages":[]}'


def time_json(time_us: int) -> bytes:
    """Return a time as a JSON string in RFC 3339; a time after the year 9999 is its last moment."""
    seconds, micros = divmod(time_us, 1_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
    except (ValueError, OverflowError, OSError):
        return b'"9999-12-31T23:59:59.999999Z"'
    return b'"%b.%06dZ"' % (moment.strftime("%Y-%m-%dT%H:%M:%S").encode(), micros)


def _data(data: bytes, content_type: str | None) -> tuple[bytes, bytes, bytes]:
    """Return the name, the JSON and the content type of a message's data."""
    kind, type_json = (_BINARY, _NULL) if content_type is None else _kind_of(content_type)
    if kind == _JSON:
        try:
            data.decode()  # the JSON reader below does not look into strings for bad UTF-8
            return b'","data":', bytes(_raw_json.decode(data)), type_json
        except (ValueError, msgspec.DecodeError, RecursionError):
            pass
    elif kind == _TEXT:
        try:
            return b'","data":', _encode(data.decode()), type_json
        except UnicodeDecodeError:
            pass
    return b'","data_base64":', _encode(data), type_json


def is_json(content_type: str) -> bool:
    return _kind_of(content_type)[0] == _JSON


def is_text(content_type: str) -> bool:
    """Return whether a type is text in UTF-8, and not JSON."""
    return _kind_of(content_type)[0] == _TEXT


def _kind_of(content_type: str) -> tuple[int, bytes]:
    known = _kinds.get(content_type)
    if known is not None:
        return known
    essence, _, parameters = content_type.partition(";")
    essence = essence.strip().lower()
    utf8 = "charset" not in parameters.lower() or "utf-8" in parameters.lower()
    if essence == "application/json" or essence.endswith("+json"):
        kind = _JSON
    elif utf8 and (essence.startswith("text/") or essence in _TEXT_TYPES):
        kind = _TEXT
    else:
        kind = _BINARY
    if len(_kinds) >= _MAX_CACHED_TYPES:
        _kinds.clear()
    _kinds[content_type] = kind, _encode(content_type)
    return _kinds[content_type]
