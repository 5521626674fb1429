# Generated from openapi/: `make generate`. Do not edit.
"""Calls of clients."""

from __future__ import annotations

from collections.abc import Mapping
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
from packetboat.models import OAuthClient
from packetboat.models.page import Page


def create_client(name: str, settings: Mapping[str, Any]) -> Call[OAuthClient]:
    body: dict[str, Any] = {"name": name, **settings}
    return change("POST", "/clients", body, OAuthClient, tagged=True)


def get_client(name: str) -> Call[OAuthClient]:
    return fetch(f"/clients/{part(name)}", OAuthClient, tagged=True)


def list_clients(page_size: int, page_token: str | None) -> Call[Page[OAuthClient]]:
    return page("/clients", "clients", OAuthClient, page_size, page_token)


def put_client(
    name: str, settings: Mapping[str, Any], if_match: str | None, force: bool
) -> Call[OAuthClient]:
    body: dict[str, Any] = {**settings}
    return change(
        "PUT",
        with_query(f"/clients/{part(name)}", {"force": force or None}),
        body,
        OAuthClient,
        if_match=if_match,
        tagged=True,
    )


def delete_client(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/clients/{part(name)}", force=force, if_match=if_match)


def add_client_secret(
    name: str, old_expires_in_seconds: int | None, if_match: str | None
) -> Call[OAuthClient]:
    body: dict[str, Any] = {}
    put(body, old_expires_in_seconds=old_expires_in_seconds)
    return change(
        "POST", f"/clients/{part(name)}/secrets", body, OAuthClient, if_match=if_match, tagged=True
    )


def remove_client_secret(name: str, prefix: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/clients/{part(name)}/secrets/{part(prefix)}", force=force, if_match=if_match)


def revoke_client_tokens(name: str) -> Call[OAuthClient]:
    return change(
        "POST", f"/clients/{part(name)}:revoke_tokens", None, OAuthClient, safe=True, tagged=True
    )
