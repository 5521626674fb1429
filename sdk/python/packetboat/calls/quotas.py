# Generated from openapi/: `make generate`. Do not edit.
"""Calls of quotas."""

from __future__ import annotations

from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    fetch,
    part,
    put,
)
from packetboat.models import Limits, Quotas


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
