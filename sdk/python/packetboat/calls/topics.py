"""Topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import Call, delete, get, page, part, put, reader, send_json
from packetboat.models import Page, Retention, Topic


def create_topic(
    name: str,
    partitions: int,
    retention: Retention | None,
    dedup_window_seconds: int | None,
    labels: Mapping[str, str] | None,
    priorities: int | None,
) -> Call[Topic]:
    body: dict[str, Any] = {"name": name, "partitions": partitions}
    put(body, retention=retention, dedup_window_seconds=dedup_window_seconds, labels=labels)
    put(body, priorities=priorities)
    return Call(send_json("POST", "/topics", body), reader(Topic))


def get_topic(name: str) -> Call[Topic]:
    return Call(get(f"/topics/{part(name)}"), reader(Topic), safe=True)


def list_topics(page_size: int, page_token: str | None) -> Call[Page[Topic]]:
    return page("/topics", "topics", Topic, page_size, page_token)


def delete_topic(name: str, force: bool) -> Call[None]:
    return delete(f"/topics/{part(name)}", force)
