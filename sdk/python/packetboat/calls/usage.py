# Generated from openapi/: `make generate`. Do not edit.
"""Calls of usage."""

from __future__ import annotations

from datetime import datetime

from packetboat.calls.call import (
    Call,
    page,
    part,
)
from packetboat.models import UsageHour
from packetboat.models.page import Page


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
