"""What subscriptions have to do, and whether every message is accounted for."""

from __future__ import annotations

from collections.abc import Sequence

from packetboat.calls.call import Call, StreamCall, fetch
from packetboat.calls.streams import stream_call
from packetboat.calls.subscriptions import path_of
from packetboat.models import Backlog, Reconciliation


def get_backlog(name: str) -> Call[Backlog]:
    return fetch(f"{path_of(name)}/backlog", Backlog)


def get_reconciliation(name: str) -> Call[Reconciliation]:
    return fetch(f"{path_of(name)}/reconciliation", Reconciliation)


def stream_backlog(
    name: str,
    min_messages: int | None,
    heartbeat_seconds: float,
    max_seconds: float | None,
) -> StreamCall:
    query = {"min_messages": min_messages, "max_seconds": max_seconds}
    return stream_call(f"{path_of(name)}/backlog:stream", query, heartbeat_seconds)


def stream_backlogs(
    subscriptions: Sequence[str],
    min_messages: int | None,
    heartbeat_seconds: float,
    max_seconds: float | None,
) -> StreamCall:
    """Names, or beginnings of names and a `*`; none: all."""
    query = {
        "subscription": list(subscriptions) or None,
        "min_messages": min_messages,
        "max_seconds": max_seconds,
    }
    return stream_call("/backlog:stream", query, heartbeat_seconds)
