"""Publishing, and what becomes of messages that are not due yet."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from packetboat.calls.call import TIMEOUT_S, Call, moment, part, put, reader
from packetboat.codec import encode_data
from packetboat.errors import PacketboatError, Problem, error_of
from packetboat.models import Data, Outgoing, Receipt
from packetboat.tracing import context_of
from packetboat.transport import Request, forking


class Producer:
    """The names of a client's batches: its own number, and one for each batch.

    The server recognizes a retry by them: the first try and all retries of a batch are one `Call`,
    and so carry the same names.
    """

    def __init__(self) -> None:
        self._forked()
        forking.watch(self)

    def _forked(self) -> None:
        """The parent goes on with its number: a child's batch under it would count as stored."""
        self._id = secrets.token_hex(16)
        self._sequences = itertools.count(1)

    def next_headers(self) -> dict[str, str]:
        return {
            "Packetboat-Producer": self._id,
            "Packetboat-Sequence": str(next(self._sequences)),
        }


def publish(
    topic: str,
    message: Outgoing,
    publisher_id: str | None,
    durability: str | None,
) -> Call[Receipt]:
    request = _publish_request(topic, message, publisher_id, durability)
    key = message.idempotency_key
    return Call(request, reader(Receipt), key is not None, key)


def publish_early(
    topic: str, message: Outgoing, publisher_id: str | None, durability: str
) -> Call[str]:
    request = _publish_request(topic, message, publisher_id, durability)
    return Call(request, lambda body: _publish_ids.decode(body).publish_id)


def publish_batch(
    topic: str,
    messages: Sequence[Outgoing | Data],
    publisher_id: str | None,
    durability: str | None,
    producer: Producer,
) -> Call[list[Receipt | PacketboatError]]:
    """The batch is stored once however often it is sent: as a whole, or where its messages have
    idempotency keys, those."""
    headers = {"Content-Type": "application/msgpack"}
    put(headers, **_common_headers(publisher_id, durability))
    keys = [isinstance(each, Outgoing) and each.idempotency_key is not None for each in messages]
    if not any(keys):
        headers |= producer.next_headers()
    items = [_item(message) for message in messages]
    body = msgspec.msgpack.encode({"messages": items})
    path = f"/topics/{part(topic)}/messages:batch"
    request = Request("POST", path, headers, body, TIMEOUT_S)
    return Call(request, _read_results, safe=all(keys) or not any(keys))


class _PublishId(msgspec.Struct):
    publish_id: str


class _Results(msgspec.Struct):
    results: list[msgspec.Raw]


_publish_ids = msgspec.json.Decoder(_PublishId)
_results = msgspec.json.Decoder(_Results)
_receipts = msgspec.json.Decoder(Receipt)
_problems = msgspec.json.Decoder(Problem)


def _publish_request(
    topic: str, message: Outgoing, publisher_id: str | None, durability: str | None
) -> Request:
    body, content_type = encode_data(message.data, message.content_type)
    headers: dict[str, str] = {}
    put(headers, **{"Content-Type": content_type, "Idempotency-Key": message.idempotency_key})
    put(headers, **_common_headers(publisher_id, durability))
    put(headers, **context_of(message.traceparent, message.tracestate).members())
    if message.key is not None:
        headers["Packetboat-Key"] = quote(message.key, safe="")
    if message.attributes:
        encoded = msgspec.json.encode(message.attributes)
        headers["Packetboat-Attributes"] = quote(encoded, safe="")
    if message.priority:
        headers["Packetboat-Priority"] = str(message.priority)
    if message.delay_seconds is not None:
        headers["Packetboat-Delay"] = str(message.delay_seconds)
    put(headers, **{"Packetboat-Deliver-At": moment(message.deliver_at)})
    if message.ttl_seconds is not None:
        headers["Packetboat-TTL"] = str(message.ttl_seconds)
    return Request("POST", f"/topics/{part(topic)}/messages", headers, body, TIMEOUT_S)


def _common_headers(publisher_id: str | None, durability: str | None) -> dict[str, str | None]:
    return {
        "Packetboat-Publisher-Id": None if publisher_id is None else quote(publisher_id, safe=""),
        "Packetboat-Durability": durability,
    }


def _item(message: Outgoing | Data) -> dict[str, Any]:
    if not isinstance(message, Outgoing):
        message = Outgoing(data=message)
    data, content_type = encode_data(message.data, message.content_type)
    item: dict[str, Any] = {"data": data}
    put(
        item,
        content_type=content_type,
        key=message.key,
        attributes=message.attributes,
        priority=message.priority or None,
        idempotency_key=message.idempotency_key,
        delay_seconds=message.delay_seconds,
        deliver_at=moment(message.deliver_at),
        ttl_seconds=message.ttl_seconds,
        **context_of(message.traceparent, message.tracestate).members(),
    )
    return item


def _read_results(body: bytes) -> list[Receipt | PacketboatError]:
    results: list[Receipt | PacketboatError] = []
    for raw in _results.decode(body).results:
        try:
            results.append(_receipts.decode(raw))
        except msgspec.ValidationError:
            results.append(error_of(_problems.decode(raw)))
    return results
