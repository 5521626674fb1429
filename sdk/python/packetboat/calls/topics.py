"""Topics, and where their partitions are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from packetboat.calls.call import Call, change, delete, fetch, get, page, part, reader
from packetboat.models import FilterPreview, Hold, Page, Partitions, Topic


class _Holds(msgspec.Struct, frozen=True):
    holds: tuple[Hold, ...]


def list_topics(page_size: int, page_token: str | None) -> Call[Page[Topic]]:
    return page("/topics", "topics", Topic, page_size, page_token)


def create_topic(name: str, settings: Mapping[str, Any]) -> Call[Topic]:
    return change("POST", "/topics", {"name": name, **settings}, Topic, tagged=True)


def get_topic(name: str) -> Call[Topic]:
    return fetch(_path(name), Topic, tagged=True)


def put_topic(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Topic]:
    return change("PUT", _path(name), settings, Topic, safe=True, if_match=if_match, tagged=True)


def patch_topic(name: str, changes: Mapping[str, Any], if_match: str | None) -> Call[Topic]:
    return change("PATCH", _path(name), changes, Topic, safe=True, if_match=if_match, tagged=True)


def delete_topic(name: str, force: bool, if_match: str | None) -> Call[None]:
    return delete(_path(name), force, if_match)


def list_topic_holds(name: str) -> Call[tuple[Hold, ...]]:
    return holds_of(_path(name))


def holds_of(path: str) -> Call[tuple[Hold, ...]]:
    """What would be lost with the topic or subscription of that path."""
    read = reader(_Holds)
    return Call(get(f"{path}/holds"), lambda body: read(body).holds, safe=True)


def grow_topic(name: str, partitions: int) -> Call[Partitions]:
    body = {"partitions": partitions}
    return change("POST", f"{_path(name)}:grow", body, Partitions, safe=True)


def list_partitions(name: str) -> Call[Partitions]:
    return fetch(f"{_path(name)}/partitions", Partitions)


def move_partition(name: str, partition: int, group: int) -> Call[Partitions]:
    path = f"{_path(name)}/partitions/{partition}:move"
    return change("POST", path, {"group": group}, Partitions)


def preview_topic_filter(name: str, expression: str, messages: int) -> Call[FilterPreview]:
    body = {"filter": expression, "messages": messages}
    return change("POST", f"{_path(name)}:preview_filter", body, FilterPreview, safe=True)


def _path(name: str) -> str:
    return f"/topics/{part(name)}"
