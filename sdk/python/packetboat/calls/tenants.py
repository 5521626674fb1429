"""Tenants, what they may use and what they used. No tenant: the own one."""

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
    reader,
    send_json,
    with_query,
)
from packetboat.models import Page, Quotas, Tenant, UsageHour


def list_tenants(page_size: int, page_token: str | None) -> Call[Page[Tenant]]:
    return page("/tenants", "tenants", Tenant, page_size, page_token)


def create_tenant(name: str, settings: Mapping[str, Any]) -> Call[Tenant]:
    return change("POST", "/tenants", {"name": name, **settings}, Tenant, tagged=True)


def get_tenant(name: str) -> Call[Tenant]:
    return fetch(_path(name), Tenant, tagged=True)


def put_tenant(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Tenant]:
    """Not safe with an owner: the secret is told once."""
    safe = settings.get("owner") is None
    return change("PUT", _path(name), settings, Tenant, safe=safe, if_match=if_match, tagged=True)


def delete_tenant(name: str, force: bool, if_match: str | None) -> Call[Tenant]:
    target = with_query(_path(name), {"force": force or None})
    request = send_json("DELETE", target, None, if_match)
    return Call(request, reader(Tenant), tagged=True)


def get_own_quotas() -> Call[Quotas]:
    return fetch("/quotas", Quotas, tagged=True)


def get_quotas(tenant: str) -> Call[Quotas]:
    return fetch(f"{_path(tenant)}/quotas", Quotas, tagged=True)


def put_quotas(
    tenant: str, limits: Mapping[str, Any], weight: float | None, if_match: str | None
) -> Call[Quotas]:
    body: dict[str, Any] = {"limits": limits}
    put(body, weight=weight)
    path = f"{_path(tenant)}/quotas"
    return change("PUT", path, body, Quotas, safe=True, if_match=if_match, tagged=True)


def get_own_usage(
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[UsageHour]]:
    query = {"from": since, "to": until, "metric": metric}
    return page("/usage", "usage", UsageHour, page_size, page_token, query)


def get_usage(
    tenant: str,
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[UsageHour]]:
    query = {"from": since, "to": until, "metric": metric}
    return page(f"{_path(tenant)}/usage", "usage", UsageHour, page_size, page_token, query)


def _path(name: str) -> str:
    return f"/tenants/{part(name)}"
