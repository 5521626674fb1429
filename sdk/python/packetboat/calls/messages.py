# Generated from openapi/: `make generate`. Do not edit.
"""Calls of messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from packetboat.calls.call import (
    Call,
    delete,
    fetch,
    get,
    member,
    moment,
    page,
    part,
    put,
    send_json,
)
from packetboat.models import AckState, DelayedMessage, Page, PartitionOffsets, StoredMessage


def get_message(topic: str, message_id: str) -> Call[StoredMessage]:
    return fetch(f"/topics/{part(topic)}/messages/{part(message_id)}", StoredMessage)


def list_delayed_messages(
    topic: str, page_size: int, page_token: str | None
) -> Call[Page[DelayedMessage]]:
    return page(f"/topics/{part(topic)}/delayed", "messages", DelayedMessage, page_size, page_token)


def cancel_message(topic: str, message_id: str) -> Call[None]:
    return delete(f"/topics/{part(topic)}/messages/{part(message_id)}")._replace(safe=True)


def reschedule_message(
    topic: str, message_id: str, delay_seconds: float | None, deliver_at: datetime | None
) -> Call[datetime]:
    body: dict[str, Any] = {}
    put(body, delay_seconds=delay_seconds, deliver_at=moment(deliver_at))
    return Call(
        send_json("PATCH", f"/topics/{part(topic)}/messages/{part(message_id)}", body),
        member("scheduled_for", datetime),
        safe=True,
    )


def get_message_ack(topic: str, message_id: str) -> Call[dict[str, AckState]]:
    return Call(
        get(f"/topics/{part(topic)}/messages/{part(message_id)}/ack"),
        member("subscriptions", dict[str, AckState]),
        safe=True,
    )


def offsets_of_partition(
    topic: str, partition: int, time: datetime, lane: int | None
) -> Call[PartitionOffsets]:
    return fetch(
        f"/topics/{part(topic)}/partitions/{partition}/offsets",
        PartitionOffsets,
        {"time": time, "lane": lane},
    )
