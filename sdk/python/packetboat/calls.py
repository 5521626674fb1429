"""Every operation of the API as a value: the request to send, and how to read the answer.

Nothing here does I/O, so the synchronous and the asynchronous client are the same client.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from packetboat.errors import PacketboatError, Problem, ServerError, error_of
from packetboat.models import (
    Data,
    ItemFailure,
    Message,
    Outgoing,
    Page,
    Receipt,
    Retention,
    Settled,
    Subscription,
    Topic,
)
from packetboat.transport import Request, Response

T = TypeVar("T")
TIMEOUT_S = 30.0
Ids = str | Message | Iterable[str | Message]


class Call(NamedTuple, Generic[T]):
    """`safe`: sending it twice does no harm."""

    request: Request
    read: Callable[[bytes], T]
    safe: bool = False

    def result(self, response: Response) -> T:
        """The result, or the error that the response stands for."""
        if response.status < 300:
            try:
                return self.read(response.body)
            except msgspec.MsgspecError as error:
                raise ServerError(response.status, f"unexpected body ({error})") from error
        raise failure(response)


class Producer:
    """What makes a client's batches known again: its own number, and one for each batch. The first
    try and all retries of a batch are one `Call`, and so carry the same."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(16)
        self._sequences = itertools.count(1)

    def next_headers(self) -> dict[str, str]:
        return {
            "Packetboat-Producer": self._id,
            "Packetboat-Sequence": str(next(self._sequences)),
        }


def failure(response: Response) -> PacketboatError:
    """Of a response that is no success."""
    try:
        problem = msgspec.json.decode(response.body, type=Problem)
    except msgspec.MsgspecError:
        text = response.body[:200].decode("utf-8", "replace")
        problem = Problem(title=text or "no problem description")
    problem = msgspec.structs.replace(problem, status=response.status)
    after = response.headers.get("retry-after", "")
    return error_of(problem, float(after) if after.isdigit() else None)


# Topics and subscriptions.


def create_topic(
    name: str,
    partitions: int,
    retention: Retention | None,
    dedup_window_seconds: int | None,
    labels: Mapping[str, str] | None,
    priorities: int | None,
) -> Call[Topic]:
    body: dict[str, Any] = {"name": name, "partitions": partitions}
    _put(body, retention=retention, dedup_window_seconds=dedup_window_seconds, labels=labels)
    _put(body, priorities=priorities)
    return Call(_json("POST", "/topics", body), _reader(Topic))


def get_topic(name: str) -> Call[Topic]:
    return Call(_get(f"/topics/{_part(name)}"), _reader(Topic), safe=True)


def list_topics(page_size: int, page_token: str | None) -> Call[Page]:
    return _page("/topics", "topics", Topic, page_size, page_token)


def delete_topic(name: str, force: bool) -> Call[None]:
    return _delete(f"/topics/{_part(name)}", force)


def create_subscription(
    topic: str,
    name: str,
    ack_deadline_seconds: float | None,
    start: str | Mapping[str, Any] | None,
    labels: Mapping[str, str] | None,
) -> Call[Subscription]:
    body: dict[str, Any] = {"name": name}
    _put(body, ack_deadline_seconds=ack_deadline_seconds, start=start, labels=labels)
    request = _json("POST", f"/topics/{_part(topic)}/subscriptions", body)
    return Call(request, _reader(Subscription))


def get_subscription(name: str) -> Call[Subscription]:
    return Call(_get(f"/subscriptions/{_part(name)}"), _reader(Subscription), safe=True)


def list_subscriptions(topic: str | None, page_size: int, page_token: str | None) -> Call[Page]:
    path = "/subscriptions" if topic is None else f"/topics/{_part(topic)}/subscriptions"
    return _page(path, "subscriptions", Subscription, page_size, page_token)


def delete_subscription(name: str, force: bool) -> Call[None]:
    return _delete(f"/subscriptions/{_part(name)}", force)


def _delete(path: str, force: bool) -> Call[None]:
    path = f"{path}?force=true" if force else path
    return Call(Request("DELETE", path, timeout_s=TIMEOUT_S), _nothing)


# Publishing.


def publish(
    topic: str,
    message: Outgoing,
    publisher_id: str | None,
    durability: str | None,
) -> Call[Receipt]:
    request = _publish_request(topic, message, publisher_id, durability)
    return Call(request, _reader(Receipt), safe=message.idempotency_key is not None)


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
    _put(headers, **_common_headers(publisher_id, durability))
    keys = [isinstance(each, Outgoing) and each.idempotency_key is not None for each in messages]
    if not any(keys):
        headers |= producer.next_headers()
    items = [_item(message) for message in messages]
    body = msgspec.msgpack.encode({"messages": items})
    path = f"/topics/{_part(topic)}/messages:batch"
    request = Request("POST", path, headers, body, TIMEOUT_S)
    return Call(request, _read_results, safe=all(keys) or not any(keys))


def cancel(topic: str, message_id: str) -> Call[None]:
    path = f"/topics/{_part(topic)}/messages/{_part(message_id)}"
    return Call(Request("DELETE", path, timeout_s=TIMEOUT_S), _nothing, safe=True)


def reschedule(
    topic: str, message_id: str, delay_seconds: float | None, deliver_at: datetime | None
) -> Call[datetime]:
    body: dict[str, Any] = {}
    _put(body, delay_seconds=delay_seconds, deliver_at=_moment(deliver_at))
    request = _json("PATCH", f"/topics/{_part(topic)}/messages/{_part(message_id)}", body)
    return Call(request, lambda raw: _rescheduled.decode(raw).scheduled_for, safe=True)


def encode_data(data: Data, content_type: str | None) -> tuple[bytes, str | None]:
    """The bytes of a message and its content type."""
    if isinstance(data, bytes):
        return data, content_type
    if isinstance(data, str) and not _is_json(content_type):
        return data.encode("utf-8"), content_type or "text/plain; charset=utf-8"
    return msgspec.json.encode(data), content_type or "application/json"


# Consuming.


def pull(
    subscription: str, max_messages: int, wait_seconds: float, max_bytes: int | None
) -> Call[list[Message]]:
    query: dict[str, Any] = {"max_messages": max_messages, "wait_seconds": wait_seconds}
    _put(query, max_bytes=max_bytes)
    path = f"/subscriptions/{_part(subscription)}/messages?{urlencode(query)}"
    request = Request("GET", path, timeout_s=TIMEOUT_S + wait_seconds)
    return Call(request, lambda body: _pulled.decode(body).messages)


def ack(subscription: str, ids: Ids, by_message_id: bool) -> Call[Settled]:
    return _settle(subscription, "ack", ids, by_message_id, {})


def nack(
    subscription: str,
    ids: Ids,
    by_message_id: bool,
    delay_seconds: float | None,
    reason: str | None,
) -> Call[Settled]:
    more: dict[str, Any] = {}
    _put(more, delay_seconds=delay_seconds, reason=reason)
    return _settle(subscription, "nack", ids, by_message_id, more)


def release(subscription: str, ids: Ids, by_message_id: bool) -> Call[Settled]:
    return _settle(subscription, "release", ids, by_message_id, {})


def modify_ack_deadline(
    subscription: str, ids: Ids, by_message_id: bool, deadline_seconds: float
) -> Call[Settled]:
    more = {"deadline_seconds": deadline_seconds}
    return _settle(subscription, "modify_ack_deadline", ids, by_message_id, more)


# How the above are made.


class _Pulled(msgspec.Struct):
    messages: list[Message]


class _Rescheduled(msgspec.Struct):
    scheduled_for: datetime


class _PublishId(msgspec.Struct):
    publish_id: str


class _Results(msgspec.Struct):
    results: list[msgspec.Raw]


class _SettledBody(msgspec.Struct):
    acked: int = 0
    done: int = 0
    results: tuple[ItemFailure, ...] = ()


_pulled = msgspec.json.Decoder(_Pulled)
_publish_ids = msgspec.json.Decoder(_PublishId)
_rescheduled = msgspec.json.Decoder(_Rescheduled)
_results = msgspec.json.Decoder(_Results)
_receipts = msgspec.json.Decoder(Receipt)
_problems = msgspec.json.Decoder(Problem)
_settled = msgspec.json.Decoder(_SettledBody)


def _publish_request(
    topic: str, message: Outgoing, publisher_id: str | None, durability: str | None
) -> Request:
    body, content_type = encode_data(message.data, message.content_type)
    headers: dict[str, str] = {}
    _put(headers, **{"Content-Type": content_type, "Idempotency-Key": message.idempotency_key})
    _put(headers, **_common_headers(publisher_id, durability))
    if message.key is not None:
        headers["Packetboat-Key"] = quote(message.key, safe="")
    if message.attributes:
        encoded = msgspec.json.encode(message.attributes)
        headers["Packetboat-Attributes"] = quote(encoded, safe="")
    if message.priority:
        headers["Packetboat-Priority"] = str(message.priority)
    if message.delay_seconds is not None:
        headers["Packetboat-Delay"] = str(message.delay_seconds)
    _put(headers, **{"Packetboat-Deliver-At": _moment(message.deliver_at)})
    if message.ttl_seconds is not None:
        headers["Packetboat-TTL"] = str(message.ttl_seconds)
    return Request("POST", f"/topics/{_part(topic)}/messages", headers, body, TIMEOUT_S)


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
    _put(
        item,
        content_type=content_type,
        key=message.key,
        attributes=message.attributes,
        priority=message.priority or None,
        idempotency_key=message.idempotency_key,
        delay_seconds=message.delay_seconds,
        deliver_at=_moment(message.deliver_at),
        ttl_seconds=message.ttl_seconds,
    )
    return item


def _moment(moment: datetime | None) -> str | None:
    """RFC 3339; one without a zone is not guessed at."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError("deliver_at must have a time zone")
    return moment.isoformat()


def _read_results(body: bytes) -> list[Receipt | PacketboatError]:
    results: list[Receipt | PacketboatError] = []
    for raw in _results.decode(body).results:
        try:
            results.append(_receipts.decode(raw))
        except msgspec.ValidationError:
            results.append(error_of(_problems.decode(raw)))
    return results


def _settle(
    subscription: str, verb: str, ids: Ids, by_message_id: bool, more: dict[str, Any]
) -> Call[Settled]:
    member = "message_id" if by_message_id else "ack_id"
    given = [ids] if isinstance(ids, str | Message) else list(ids)
    texts = [getattr(each, member) if isinstance(each, Message) else each for each in given]
    body = {member + "s": texts} | more
    request = _json("POST", f"/subscriptions/{_part(subscription)}/{verb}", body)
    return Call(request, _read_settled, safe=True)


def _read_settled(body: bytes) -> Settled:
    answer = _settled.decode(body)
    return Settled(answer.acked + answer.done, answer.results)


def _page(
    path: str, member: str, kind: type[Any], page_size: int, page_token: str | None
) -> Call[Page]:
    query: dict[str, Any] = {"page_size": page_size}
    _put(query, page_token=page_token)

    def read(body: bytes) -> Page:
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(raw[member], type=tuple[kind, ...])  # type: ignore[valid-type]
        return Page(items, msgspec.json.decode(raw["next_page_token"], type=str | None))

    return Call(_get(f"{path}?{urlencode(query)}"), read, safe=True)


def _get(path: str) -> Request:
    return Request("GET", path, timeout_s=TIMEOUT_S)


def _json(method: str, path: str, body: object) -> Request:
    headers = {"Content-Type": "application/json"}
    return Request(method, path, headers, msgspec.json.encode(body), TIMEOUT_S)


def _reader(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def _nothing(body: bytes) -> None:
    return None


def _put(target: dict[str, Any], **members: Any) -> None:
    """Those that are given."""
    target.update({name: value for name, value in members.items() if value is not None})


def _part(name: str) -> str:
    return quote(name, safe="")


def _is_json(content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")
