"""What a tenant may use, what it used, and who changed what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

Order = Literal["newest", "oldest"]


class Limits(TypedDict, total=False):
    """What a tenant may use; what is not named has the platform's default, None and 0: no limit."""

    publish_messages_per_second: float | None
    publish_bytes_per_second: float | None
    stored_bytes: int | None
    topics: int | None
    subscriptions: int | None
    in_flight: int | None
    push_concurrency: int | None
    requests_per_second: float | None


class Quotas(msgspec.Struct, frozen=True):
    """What a tenant may use, by name as in `Limits`."""

    limits: dict[str, float | None]
    """Those in force; None: no limit."""
    own: dict[str, float | None] = {}
    """Those that the tenant has of its own; the others are the platform's."""
    weight: float = 1
    """Its share where tenants compete."""
    updated_at: datetime | None = None
    etag: str | None = None


class UsageHour(msgspec.Struct, frozen=True):
    """A number of one hour."""

    hour: datetime
    """When it began, UTC."""
    metric: str
    value: float


class AuditFilter(TypedDict, total=False):
    """Which entries; all that are given must hold."""

    since: datetime
    """Not before this moment, which has a zone."""
    until: datetime
    """Before this moment."""
    actor: str
    action: str
    """An operation, as the API's description names it."""
    resource: str
    """Of what, and of what is below it: `topics/orders`."""
    order: Order


class AuditSource(msgspec.Struct, frozen=True):
    """Where a request came from."""

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
    """Of the answer; None: it is not known, and the change may have been made."""
    source: AuditSource = AuditSource()
    members: Mapping[str, Any] = {}
    """Of the body, without secrets and payload."""
    query: Mapping[str, Any] = {}
    reason: str | None = None
