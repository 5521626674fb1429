"""Single messages of a topic, and reading its partitions again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from packetboat.calls.call import (
    TIMEOUT_S,
    Call,
    StreamCall,
    delete,
    fetch,
    get,
    moment,
    page,
    part,
    put,
    reader,
    send_json,
)
from packetboat.models import (
    AckState,
    DelayedMessage,
    Page,
    PartitionOffsets,
    ReplayPage,
    StoredMessage,
)

ARROW = "application/vnd.apache.arrow.stream"


class _Rescheduled(msgspec.Struct):
    scheduled_for: datetime


class _AckStates(msgspec.Struct):
    subscriptions: dict[str, AckState]


def get_message(topic: str, message_id: str) -> Call[StoredMessage]:
    return fetch(_path(topic, message_id), StoredMessage)


def cancel_message(topic: str, message_id: str) -> Call[None]:
    return delete(_path(topic, message_id))._replace(safe=True)


def list_delayed_messages(
    topic: str, page_size: int, page_token: str | None
) -> Call[Page[DelayedMessage]]:
    where = f"/topics/{part(topic)}/delayed"
    return page(where, "messages", DelayedMessage, page_size, page_token)


def reschedule_message(
    topic: str, message_id: str, delay_seconds: float | None, deliver_at: datetime | None
) -> Call[datetime]:
    body: dict[str, Any] = {}
    put(body, delay_seconds=delay_seconds, deliver_at=moment(deliver_at))
    request = send_json("PATCH", _path(topic, message_id), body)
    read = reader(_Rescheduled)
    return Call(request, lambda raw: read(raw).scheduled_for, safe=True)


def get_message_ack(topic: str, message_id: str) -> Call[dict[str, AckState]]:
    read = reader(_AckStates)
    request = get(f"{_path(topic, message_id)}/ack")
    return Call(request, lambda raw: read(raw).subscriptions, safe=True)


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


def offsets_of_partition(
    topic: str, partition: int, time: datetime, lane: int | None
) -> Call[PartitionOffsets]:
    path = f"{_partition(topic, partition)}/offsets"
    return fetch(path, PartitionOffsets, {"time": time, "lane": lane})


def _start(start: int | datetime | None) -> dict[str, Any]:
    return {"time" if isinstance(start, datetime) else "offset": start}


def _path(topic: str, message_id: str) -> str:
    return f"/topics/{part(topic)}/messages/{part(message_id)}"


def _partition(topic: str, partition: int) -> str:
    return f"/topics/{part(topic)}/partitions/{partition}"
