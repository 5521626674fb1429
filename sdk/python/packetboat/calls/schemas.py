"""Schemas that bodies must fit."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from packetboat.calls.call import Call, change, delete, fetch, get, page, part, put, reader
from packetboat.models import (
    Page,
    Schema,
    SchemaChecked,
    SchemaPreviewed,
    SchemaValidated,
    SchemaVersion,
)


class _Versions(msgspec.Struct):
    versions: tuple[SchemaVersion, ...]


class _Number(msgspec.Struct):
    number: int


def list_schemas(page_size: int, page_token: str | None) -> Call[Page[Schema]]:
    return page("/schemas", "schemas", Schema, page_size, page_token)


def create_schema(name: str, type: str, definition: Any, compatibility: str | None) -> Call[Schema]:
    body = {"name": name, "type": type, "definition": definition}
    put(body, compatibility=compatibility)
    return change("POST", "/schemas", body, Schema, tagged=True)


def get_schema(name: str) -> Call[Schema]:
    return fetch(_path(name), Schema, tagged=True)


def change_schema(name: str, compatibility: str, if_match: str | None) -> Call[Schema]:
    body = {"compatibility": compatibility}
    return change("PATCH", _path(name), body, Schema, safe=True, if_match=if_match, tagged=True)


def delete_schema(name: str, if_match: str | None) -> Call[None]:
    return delete(_path(name), if_match=if_match)


def list_schema_versions(name: str) -> Call[tuple[SchemaVersion, ...]]:
    read = reader(_Versions)
    return Call(get(f"{_path(name)}/versions"), lambda body: read(body).versions, safe=True)


def add_schema_version(name: str, definition: Any) -> Call[int]:
    """Safe: the latest version again is no new one."""
    read = reader(_Number)
    made = change("POST", f"{_path(name)}/versions", {"definition": definition}, _Number)
    return Call(made.request, lambda body: read(body).number, safe=True)


def get_schema_version(name: str, number: int) -> Call[SchemaVersion]:
    return fetch(f"{_path(name)}/versions/{number}", SchemaVersion)


def check_schema(name: str, definition: Any) -> Call[SchemaChecked]:
    body = {"definition": definition}
    return change("POST", f"{_path(name)}:check", body, SchemaChecked, safe=True)


def validate_body(
    name: str, data: Any, content_type: str | None, number: int | None
) -> Call[SchemaValidated]:
    body: dict[str, Any] = {"data": data}
    if isinstance(data, bytes):
        body = {"data_base64": base64.b64encode(data).decode("ascii")}
    put(body, content_type=content_type, number=number)
    return change("POST", f"{_path(name)}:validate", body, SchemaValidated, safe=True)


def preview_schema(
    topic: str,
    schema: str | None,
    type: str | None,
    definition: Any,
    messages: int,
) -> Call[SchemaPreviewed]:
    body: dict[str, Any] = {"messages": messages}
    put(body, schema=schema, type=type, definition=definition)
    path = f"/topics/{part(topic)}:preview_schema"
    return change("POST", path, body, SchemaPreviewed, safe=True)


def _path(name: str) -> str:
    return f"/schemas/{part(name)}"
