"""Pulling and streaming messages, settling them, and reading partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from packetboat.calls.bodies import content_members
from packetboat.calls.call import (
    TIMEOUT_S,
    Call,
    StreamCall,
    get,
    numbers,
    part,
    path_of,
    put,
    reader,
    send_json,
)
from packetboat.calls.pages import ACCEPT, is_page, join_ids, read_page
from packetboat.calls.streams import stream_call
from packetboat.models import ItemFailure, Message, Output, ReplayPage, Settled
from packetboat.tracing import context_of

ARROW = "application/vnd.apache.arrow.stream"
Ids = str | Message | Iterable[str | Message]
"""One or many messages, or their ack ids; message ids with `by_message_id`."""


class _Pulled(msgspec.Struct):
    messages: list[Message]


class _MessageId(msgspec.Struct):
    message_id: str


class _SettledBody(msgspec.Struct):
    acked: int = 0
    done: int = 0
    results: tuple[ItemFailure, ...] = ()
    published: tuple[_MessageId, ...] = ()
    duplicate: bool = False


_pulled = msgspec.json.Decoder(_Pulled)
_settled = msgspec.json.Decoder(_SettledBody)


def pull(
    subscription: str,
    max_messages: int,
    wait_seconds: float,
    max_bytes: int | None = None,
    *,
    min_messages: int | None = None,
    consumer: str | None = None,
    partitions: Sequence[int] | None = None,
    affinity: bool = False,
) -> Call[list[Message]]:
    """Not safe: what a lost answer had is leased, and comes again after its deadline."""
    query = {
        "max_messages": max_messages,
        "wait_seconds": wait_seconds,
        "max_bytes": max_bytes,
        "min_messages": min_messages,
    } | _consumer(consumer, partitions, affinity)
    request = get(f"{path_of(subscription)}/messages", query)
    request = request._replace(timeout_s=TIMEOUT_S + wait_seconds, headers={"Accept": ACCEPT})
    return Call(request, _read_pulled)


def _read_pulled(body: bytes) -> list[Message]:
    return read_page(body) if is_page(body) else _pulled.decode(body).messages


def stream(
    subscription: str,
    *,
    max_outstanding_messages: int | None = None,
    max_outstanding_bytes: int | None = None,
    heartbeat_seconds: float = 10.0,
    max_seconds: float | None = None,
    consumer: str | None = None,
    partitions: Sequence[int] | None = None,
    affinity: bool = False,
) -> StreamCall:
    query = {
        "max_outstanding_messages": max_outstanding_messages,
        "max_outstanding_bytes": max_outstanding_bytes,
        "max_seconds": max_seconds,
    } | _consumer(consumer, partitions, affinity)
    return stream_call(f"{path_of(subscription)}/messages:stream", query, heartbeat_seconds)


def ack(
    subscription: str, ids: Ids, by_message_id: bool, publish: Iterable[Output] = ()
) -> Call[Settled]:
    """Safe also where it publishes: sent again it is answered as a duplicate."""
    outputs = [_output(each) for each in publish]
    return _settle(subscription, "ack", ids, by_message_id, {"publish": outputs} if outputs else {})


def nack(
    subscription: str,
    ids: Ids,
    by_message_id: bool,
    delay_seconds: float | None,
    reason: str | None,
) -> Call[Settled]:
    more: dict[str, Any] = {}
    put(more, delay_seconds=delay_seconds, reason=reason)
    return _settle(subscription, "nack", ids, by_message_id, more)


def reject(subscription: str, ids: Ids, by_message_id: bool, reason: str | None) -> Call[Settled]:
    more: dict[str, Any] = {}
    put(more, reason=reason)
    return _settle(subscription, "reject", ids, by_message_id, more)


def release(subscription: str, ids: Ids, by_message_id: bool) -> Call[Settled]:
    return _settle(subscription, "release", ids, by_message_id, {})


def modify_ack_deadline(
    subscription: str, ids: Ids, by_message_id: bool, deadline_seconds: float
) -> Call[Settled]:
    more = {"deadline_seconds": deadline_seconds}
    return _settle(subscription, "modify_ack_deadline", ids, by_message_id, more)


def _consumer(
    consumer: str | None, partitions: Sequence[int] | None, affinity: bool
) -> dict[str, Any]:
    return {
        "consumer": consumer,
        "partitions": numbers(partitions),
        "affinity": affinity or None,
    }


def _output(output: Output) -> dict[str, Any]:
    item = {"topic": output.topic} | content_members(output.data, output.content_type)
    put(
        item,
        key=output.key,
        attributes=output.attributes,
        priority=output.priority or None,
        ttl_seconds=output.ttl_seconds,
        **context_of(output.traceparent, output.tracestate).members(),
    )
    return item


def _settle(
    subscription: str, verb: str, ids: Ids, by_message_id: bool, more: Mapping[str, Any]
) -> Call[Settled]:
    texts = [each if isinstance(each, str) else _id(each, by_message_id) for each in listed(ids)]
    path = f"{path_of(subscription)}/{verb}"
    if by_message_id:
        request = send_json("POST", path, {"message_ids": texts, **more})
        return Call(request, _read_settled, safe=True)
    joined = join_ids(texts)

    def read(body: bytes) -> Settled:
        settled = _read_settled(body)
        if joined.texts == texts:
            return settled
        failures = joined.failures(settled.failures, texts)
        return replace(settled, count=len(texts) - len(failures), failures=tuple(failures))

    return Call(send_json("POST", path, {"ack_ids": joined.texts, **more}), read, safe=True)


def listed(ids: Ids) -> list[str | Message]:
    """Return one or many messages or ids as a list."""
    return [ids] if isinstance(ids, str | Message) else list(ids)


def _id(message: Message, by_message_id: bool) -> str:
    if by_message_id:
        return message.message_id
    if message.ack_id is None:
        raise ValueError(f"message {message.message_id} was acked as it was delivered")
    return message.ack_id


def _read_settled(body: bytes) -> Settled:
    answer = _settled.decode(body)
    published = tuple(each.message_id for each in answer.published)
    return Settled(answer.acked + answer.done, answer.results, published, answer.duplicate)


def replay(
    topic: str,
    partition: int,
    start: int | datetime | None,
    *,
    end_offset: int | None = None,
    lane: int | None = None,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    wait_seconds: float | None = None,
    filter: str | None = None,
) -> Call[ReplayPage]:
    query = _start(start) | {
        "end_offset": end_offset,
        "lane": lane,
        "max_messages": max_messages,
        "max_bytes": max_bytes,
        "wait_seconds": wait_seconds,
        "filter": filter,
    }
    request = get(f"{_partition(topic, partition)}/messages", query)
    request = request._replace(timeout_s=TIMEOUT_S + (wait_seconds or 0))
    return Call(request, reader(ReplayPage), safe=True)


def replay_arrow(
    topic: str,
    partition: int,
    start: int | datetime | None,
    *,
    end_offset: int | None = None,
    lane: int | None = None,
    max_messages: int | None = None,
    filter: str | None = None,
) -> StreamCall:
    query = _start(start) | {
        "end_offset": end_offset,
        "lane": lane,
        "max_messages": max_messages,
        "filter": filter,
    }
    request = get(f"{_partition(topic, partition)}/messages", query)
    return StreamCall(request._replace(headers={"Accept": ARROW}))


def _start(start: int | datetime | None) -> dict[str, Any]:
    return {"time" if isinstance(start, datetime) else "offset": start}


def _partition(topic: str, partition: int) -> str:
    return f"/topics/{part(topic)}/partitions/{partition}"
