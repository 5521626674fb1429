# Generated from openapi/: `make generate`. Do not edit.
"""Calls of schemas."""

from __future__ import annotations

from typing import Any

from packetboat.calls.bodies import body_to_validate
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
    send_json,
)
from packetboat.models import (
    Compatibility,
    Page,
    Schema,
    SchemaChecked,
    SchemaType,
    SchemaValidated,
    SchemaVersion,
)


def create_schema(
    name: str, type: SchemaType, definition: Any, compatibility: Compatibility | None
) -> Call[Schema]:
    body: dict[str, Any] = {"name": name, "type": type, "definition": definition}
    put(body, compatibility=compatibility)
    return change("POST", "/schemas", body, Schema, tagged=True)


def get_schema(name: str) -> Call[Schema]:
    return fetch(f"/schemas/{part(name)}", Schema, tagged=True)


def list_schemas(page_size: int, page_token: str | None) -> Call[Page[Schema]]:
    return page("/schemas", "schemas", Schema, page_size, page_token)


def change_schema(name: str, compatibility: Compatibility, if_match: str | None) -> Call[Schema]:
    body: dict[str, Any] = {"compatibility": compatibility}
    return change(
        "PATCH", f"/schemas/{part(name)}", body, Schema, safe=True, if_match=if_match, tagged=True
    )


def delete_schema(name: str, if_match: str | None) -> Call[None]:
    return delete(f"/schemas/{part(name)}", if_match=if_match)


def list_schema_versions(name: str) -> Call[tuple[SchemaVersion, ...]]:
    return Call(
        get(f"/schemas/{part(name)}/versions"),
        member("versions", tuple[SchemaVersion, ...]),
        safe=True,
    )


def add_schema_version(name: str, definition: Any) -> Call[int]:
    body: dict[str, Any] = {"definition": definition}
    return Call(
        send_json("POST", f"/schemas/{part(name)}/versions", body), member("number", int), safe=True
    )


def get_schema_version(name: str, number: int) -> Call[SchemaVersion]:
    return fetch(f"/schemas/{part(name)}/versions/{number}", SchemaVersion)


def check_schema(name: str, definition: Any) -> Call[SchemaChecked]:
    body: dict[str, Any] = {"definition": definition}
    return change("POST", f"/schemas/{part(name)}:check", body, SchemaChecked, safe=True)


def validate_body(
    name: str, data: Any, content_type: str | None, number: int | None
) -> Call[SchemaValidated]:
    body: dict[str, Any] = {"data": data}
    put(body, content_type=content_type, number=number)
    body = body_to_validate(body)
    return change("POST", f"/schemas/{part(name)}:validate", body, SchemaValidated, safe=True)
