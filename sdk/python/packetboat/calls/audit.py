# Generated from openapi/: `make generate`. Do not edit.
"""Calls of audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.bodies import audit_query
from packetboat.calls.call import (
    Call,
    page,
    part,
)
from packetboat.models import AuditEntry, Page


def get_audit(
    tenant: str, settings: Mapping[str, Any], page_size: int, page_token: str | None
) -> Call[Page[AuditEntry]]:
    return page(
        f"/tenants/{part(tenant)}/audit",
        "entries",
        AuditEntry,
        page_size,
        page_token,
        audit_query(settings),
    )


def get_own_audit(
    settings: Mapping[str, Any], page_size: int, page_token: str | None
) -> Call[Page[AuditEntry]]:
    return page("/audit", "entries", AuditEntry, page_size, page_token, audit_query(settings))
