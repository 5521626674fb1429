# Generated from openapi/: `make generate`. Do not edit.
"""Calls of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    page,
    part,
    put,
    with_query,
)
from packetboat.models import Key
from packetboat.models.page import Page


def create_key(name: str, scopes: Sequence[str], settings: Mapping[str, Any]) -> Call[Key]:
    body: dict[str, Any] = {"name": name, "scopes": scopes, **settings}
    return change("POST", "/keys", body, Key, tagged=True)


def get_key(name: str) -> Call[Key]:
    return fetch(f"/keys/{part(name)}", Key, tagged=True)


def list_keys(page_size: int, page_token: str | None) -> Call[Page[Key]]:
    return page("/keys", "keys", Key, page_size, page_token)


def put_key(
    name: str, scopes: Sequence[str], settings: Mapping[str, Any], if_match: str | None, force: bool
) -> Call[Key]:
    body: dict[str, Any] = {"scopes": scopes, **settings}
    return change(
        "PUT",
        with_query(f"/keys/{part(name)}", {"force": force or None}),
        body,
        Key,
        if_match=if_match,
        tagged=True,
    )


def delete_key(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/keys/{part(name)}", force=force, if_match=if_match)


def rotate_key(name: str, old_expires_in_seconds: int | None, if_match: str | None) -> Call[Key]:
    body: dict[str, Any] = {}
    put(body, old_expires_in_seconds=old_expires_in_seconds)
    return change("POST", f"/keys/{part(name)}:rotate", body, Key, if_match=if_match, tagged=True)
