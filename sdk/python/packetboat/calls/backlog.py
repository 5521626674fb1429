"""Streams of the backlogs of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from packetboat.calls.call import StreamCall, path_of
from packetboat.calls.streams import stream_call


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
    """Open the stream of these names, or beginnings of names and a `*`; without any, of all."""
    query = {
        "subscription": list(subscriptions) or None,
        "min_messages": min_messages,
        "max_seconds": max_seconds,
    }
    return stream_call("/backlog:stream", query, heartbeat_seconds)
