# Generated from openapi/: `make generate`. Do not edit.
"""Calls of tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    fetch,
    page,
    part,
    with_query,
)
from packetboat.models import Tenant
from packetboat.models.page import Page


def create_tenant(name: str, settings: Mapping[str, Any]) -> Call[Tenant]:
    body: dict[str, Any] = {"name": name, **settings}
    return change("POST", "/tenants", body, Tenant, tagged=True)


def get_tenant(name: str) -> Call[Tenant]:
    return fetch(f"/tenants/{part(name)}", Tenant, tagged=True)


def list_tenants(page_size: int, page_token: str | None) -> Call[Page[Tenant]]:
    return page("/tenants", "tenants", Tenant, page_size, page_token)


def put_tenant(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Tenant]:
    body: dict[str, Any] = {**settings}
    return change(
        "PUT",
        f"/tenants/{part(name)}",
        body,
        Tenant,
        safe=settings.get("owner") is None,
        if_match=if_match,
        tagged=True,
    )


def delete_tenant(name: str, if_match: str | None, force: bool) -> Call[Tenant]:
    return change(
        "DELETE",
        with_query(f"/tenants/{part(name)}", {"force": force or None}),
        None,
        Tenant,
        if_match=if_match,
        tagged=True,
    )
