"""Subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import Call, delete, get, page, part, put, reader, send_json
from packetboat.models import Page, Subscription


def create_subscription(
    topic: str,
    name: str,
    ack_deadline_seconds: float | None,
    start: str | Mapping[str, Any] | None,
    labels: Mapping[str, str] | None,
) -> Call[Subscription]:
    body: dict[str, Any] = {"name": name}
    put(body, ack_deadline_seconds=ack_deadline_seconds, start=start, labels=labels)
    request = send_json("POST", f"/topics/{part(topic)}/subscriptions", body)
    return Call(request, reader(Subscription))


def get_subscription(name: str) -> Call[Subscription]:
    return Call(get(f"/subscriptions/{part(name)}"), reader(Subscription), safe=True)


def list_subscriptions(
    topic: str | None, page_size: int, page_token: str | None
) -> Call[Page[Subscription]]:
    path = "/subscriptions" if topic is None else f"/topics/{part(topic)}/subscriptions"
    return page(path, "subscriptions", Subscription, page_size, page_token)


def delete_subscription(name: str, force: bool) -> Call[None]:
    return delete(f"/subscriptions/{part(name)}", force)
