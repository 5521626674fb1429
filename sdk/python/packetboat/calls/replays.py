"""Reads of a partition, from an offset or a time on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from packetboat.calls.call import TIMEOUT_S, Call, StreamCall, get, part, reader
from packetboat.models import ReplayPage

ARROW = "application/vnd.apache.arrow.stream"


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
