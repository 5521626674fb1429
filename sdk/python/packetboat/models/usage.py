"""Limits of a tenant, its usage, and the audit of its changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

Order = Literal["newest", "oldest"]


class Limits(TypedDict, total=False):
    """Limits of a tenant; one left out has the platform's default, None and 0 are no limit."""

    publish_messages_per_second: float | None
    publish_bytes_per_second: float | None
    stored_bytes: int | None
    topics: int | None
    subscriptions: int | None
    in_flight: int | None
    push_concurrency: int | None
    requests_per_second: float | None


class Quotas(msgspec.Struct, frozen=True):
    """Limits of a tenant, by name as in `Limits`."""

    limits: dict[str, float | None]
    """The limits in force; None: no limit."""
    own: dict[str, float | None] = {}
    """Limits that the tenant has of its own; the others are the platform's."""
    weight: float = 1
    """The tenant's share where tenants compete."""
    updated_at: datetime | None = None
    etag: str | None = None
    exempt: tuple[str, ...] = ()
    """Built-in limits that do not hold for the tenant, which was there before them."""


class UsageHour(msgspec.Struct, frozen=True):
    """A number of one hour."""

    hour: datetime
    """Start of the hour, UTC."""
    metric: str
    value: float


class AuditFilter(TypedDict, total=False):
    """A choice of entries: all conditions that are given must hold."""

    since: datetime
    """The earliest moment, with a zone."""
    until: datetime
    """The moment that all entries are before."""
    actor: str
    action: str
    """An operation, as the API's description names it."""
    resource: str
    """The resource that was changed, with all below it: `topics/orders`."""
    order: Order


class AuditSource(msgspec.Struct, frozen=True):
    """The source of a request."""

    address: str | None = None
    forwarded_for: str | None = None
    """X-Forwarded-For as the request had it."""


class AuditEntry(msgspec.Struct, frozen=True):
    """A change, who made it and what it was answered."""

    id: str
    at: datetime
    actor: str
    action: str
    resource: str
    request_id: str
    status: int | None = None
    """Status of the answer; None: it is not known, and the change may have been made."""
    source: AuditSource = AuditSource()
    members: Mapping[str, Any] = {}
    """Members of the body, without secrets and payload."""
    query: Mapping[str, Any] = {}
    reason: str | None = None
