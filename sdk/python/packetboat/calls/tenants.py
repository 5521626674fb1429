# Generated from openapi/: `make generate`. Do not edit.
"""Calls of tenants, quotas, usage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    fetch,
    page,
    part,
    put,
    with_query,
)
from packetboat.models import Limits, Page, Quotas, Tenant, UsageHour


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


def get_quotas(tenant: str) -> Call[Quotas]:
    return fetch(f"/tenants/{part(tenant)}/quotas", Quotas, tagged=True)


def get_own_quotas() -> Call[Quotas]:
    return fetch("/quotas", Quotas, tagged=True)


def put_quotas(
    tenant: str, limits: Limits, weight: float | None, if_match: str | None
) -> Call[Quotas]:
    body: dict[str, Any] = {"limits": limits}
    put(body, weight=weight)
    return change(
        "PUT",
        f"/tenants/{part(tenant)}/quotas",
        body,
        Quotas,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def get_usage(
    tenant: str,
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[UsageHour]]:
    return page(
        f"/tenants/{part(tenant)}/usage",
        "usage",
        UsageHour,
        page_size,
        page_token,
        {"from": since, "to": until, "metric": metric},
    )


def get_own_usage(
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[UsageHour]]:
    return page(
        "/usage",
        "usage",
        UsageHour,
        page_size,
        page_token,
        {"from": since, "to": until, "metric": metric},
    )
