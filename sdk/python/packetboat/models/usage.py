# Generated from openapi/: `make generate`. Do not edit.
"""Limits of a tenant, its usage, and the audit of its changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

Order = Literal["newest", "oldest"]


class Limits(TypedDict, total=False):
    """Limits of a tenant; one left out has the platform's default, None and 0 are no limit."""

    publish_messages_per_second: float | None
    """Messages that are published in a second."""
    publish_bytes_per_second: float | None
    """Bytes that are published in a second."""
    stored_bytes: int | None
    """Bytes that its topics hold."""
    topics: int | None
    """Number of topics."""
    subscriptions: int | None
    """Number of subscriptions."""
    in_flight: int | None
    """Messages that are leased at once, over all subscriptions."""
    push_concurrency: int | None
    """Webhook requests that are under way at once."""
    requests_per_second: float | None
    """Requests of any kind in a second."""


class Quotas(msgspec.Struct, frozen=True):
    """Limits of a tenant, by name as in `Limits`."""

    limits: dict[str, float | None]
    """The limits in force; None: no limit."""
    own: dict[str, float | None] = {}
    """Limits that the tenant has of its own; the others are the platform's."""
    exempt: tuple[str, ...] = ()
    """Built-in limits that do not hold for the tenant, which was there before them. The operator
    ends that with a limit of the tenant's own, or with a setting for all tenants."""
    weight: float = 1
    """The tenant's share where tenants compete."""
    updated_at: datetime | None = None
    etag: str | None = None
    """For `if_match`; None in a listing."""


class UsageHour(msgspec.Struct, frozen=True):
    """A number of one hour."""

    hour: datetime
    """Start of the hour, UTC."""
    metric: str
    value: float


class AuditFilter(TypedDict, total=False):
    """A choice of entries: all conditions that are given must hold."""

    since: datetime
    """The earliest time, with a zone."""
    until: datetime
    """The time, with a zone, that all entries are before."""
    actor: str
    """The author of the changes."""
    action: str
    """The operation, by its operationId."""
    resource: str
    """The resource that was changed, with all below it: `topics/orders`."""
    order: Order
    """The entries to begin with."""


class AuditSource(msgspec.Struct, frozen=True):
    """The source of a request."""

    address: str | None = None
    forwarded_for: str | None = None
    """X-Forwarded-For as the request had it."""


class AuditEntry(msgspec.Struct, frozen=True):
    """A change, with its author and the status of the answer."""

    id: str
    at: datetime
    actor: str
    """`client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`, `operator:NAME` or `dev`; `platform` of
    what was done without a request."""
    action: str
    """The operationId; of the platform `subscriptions.push.` and `disabled`, `enabled`, `verified`
    or `unverified`."""
    resource: str
    request_id: str
    status: int | None = None
    """Status of the answer; None: it is not known, and the change may have been made."""
    source: AuditSource = AuditSource()
    members: dict[str, Any] = {}
    """Members of the body, without secrets and payload."""
    query: dict[str, Any] = {}
    reason: str | None = None
    """Reason of a change by the platform, where there is one."""
