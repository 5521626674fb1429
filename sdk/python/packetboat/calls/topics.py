# Generated from openapi/: `make generate`. Do not edit.
"""Calls of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    get,
    member,
    page,
    part,
    put,
)
from packetboat.models import (
    FilterPreview,
    Hold,
    Page,
    Partitions,
    SchemaPreviewed,
    SchemaType,
    Topic,
)


def create_topic(name: str, settings: Mapping[str, Any]) -> Call[Topic]:
    body: dict[str, Any] = {"name": name, **settings}
    return change("POST", "/topics", body, Topic, tagged=True)


def get_topic(name: str) -> Call[Topic]:
    return fetch(f"/topics/{part(name)}", Topic, tagged=True)


def list_topics(page_size: int, page_token: str | None) -> Call[Page[Topic]]:
    return page("/topics", "topics", Topic, page_size, page_token)


def put_topic(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Topic]:
    body: dict[str, Any] = {**settings}
    return change(
        "PUT", f"/topics/{part(name)}", body, Topic, safe=True, if_match=if_match, tagged=True
    )


def patch_topic(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Topic]:
    body: dict[str, Any] = {**settings}
    return change(
        "PATCH", f"/topics/{part(name)}", body, Topic, safe=True, if_match=if_match, tagged=True
    )


def delete_topic(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/topics/{part(name)}", force=force, if_match=if_match)


def list_topic_holds(name: str) -> Call[tuple[Hold, ...]]:
    return Call(get(f"/topics/{part(name)}/holds"), member("holds", tuple[Hold, ...]), safe=True)


def grow_topic(name: str, partitions: int) -> Call[Partitions]:
    body: dict[str, Any] = {"partitions": partitions}
    return change("POST", f"/topics/{part(name)}:grow", body, Partitions, safe=True)


def list_partitions(name: str) -> Call[Partitions]:
    return fetch(f"/topics/{part(name)}/partitions", Partitions)


def move_partition(name: str, partition: int, group: int) -> Call[Partitions]:
    body: dict[str, Any] = {"group": group}
    return change("POST", f"/topics/{part(name)}/partitions/{partition}:move", body, Partitions)


def preview_topic_filter(name: str, expression: str, messages: int) -> Call[FilterPreview]:
    body: dict[str, Any] = {"filter": expression, "messages": messages}
    return change("POST", f"/topics/{part(name)}:preview_filter", body, FilterPreview, safe=True)


def preview_schema(
    name: str, schema: str | None, type: SchemaType | None, definition: object, messages: int
) -> Call[SchemaPreviewed]:
    body: dict[str, Any] = {"messages": messages}
    put(body, schema=schema, type=type, definition=definition)
    return change("POST", f"/topics/{part(name)}:preview_schema", body, SchemaPreviewed, safe=True)
