"""Quotas, usage and the audit of a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import ETAG
from openapi.contract import Answer, Operation, Parameter, ok, table

Order = Literal["newest", "oldest"]
Choice = Annotated[str, Meta(max_length=512)]


class Limits(Answer):
    """The limits in force; null: no limit."""

    publish_messages_per_second: float | None
    publish_bytes_per_second: float | None
    stored_bytes: float | None
    topics: float | None
    subscriptions: float | None
    in_flight: float | None
    push_concurrency: float | None
    requests_per_second: float | None


QUOTA_NAMES = Limits.__struct_fields__
"""The names of the limits of a tenant."""


class Quotas(Answer):
    limits: Limits
    """The limits in force; null: no limit."""
    own: dict[str, float | None]
    """Limits that the tenant has of its own; the others are the platform's."""
    exempt: list[str]
    """Built-in limits that do not hold for the tenant, which was there before them. The operator
    ends that with a limit of the tenant's own, or with a setting for all tenants."""
    weight: float
    """The tenant's share where tenants compete."""
    updated_at: datetime | None
    """The time of the last change; null: none was made."""


class UsageHour(Answer):
    hour: datetime
    """Start of the hour, UTC."""
    metric: str
    value: float


class UsagePage(Answer):
    usage: list[UsageHour]
    next_page_token: str | None


class AuditSource(Answer):
    address: str | UnsetType = UNSET
    forwarded_for: str | UnsetType = UNSET
    """X-Forwarded-For as the request had it."""


class AuditEntry(Answer):
    id: str
    at: datetime
    actor: str
    """`client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`, `operator:NAME` or `dev`; `platform` of
    what was done without a request."""
    action: str
    """The operationId; of the platform `subscriptions.push.` and `disabled`, `enabled`, `verified`
    or `unverified`."""
    resource: str
    status: int | None
    """Status of the answer; null: it is not known, and the change may have been made."""
    request_id: str
    source: AuditSource
    members: dict[str, Any]
    """Members of the body, without secrets and payload."""
    query: dict[str, Any]
    reason: str | None
    """Reason of a change by the platform, where there is one."""


class AuditPage(Answer):
    entries: list[AuditEntry]
    next_page_token: str | None


FROM = Parameter("from", "from", "query", "The earliest time, with a zone.", datetime)
TO = Parameter("to", "to", "query", "The time, with a zone, that all entries are before.", datetime)
METRIC = Parameter(
    "metric",
    "metric",
    "query",
    "The name of one metric.",
    Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")],
)
ACTOR = Parameter(
    "actor", "actor", "query", "The author of the changes.", Annotated[str, Meta(max_length=512)]
)
ACTION = Parameter(
    "action",
    "action",
    "query",
    "The operation, by its operationId.",
    Annotated[str, Meta(max_length=512)],
)
RESOURCE = Parameter(
    "resource",
    "resource",
    "query",
    "The resource that was changed, with all below it: `topics/orders`.",
    Choice,
)
ORDER = Parameter("order", "order", "query", "The entries to begin with.", Order, default="newest")

OPERATIONS = table(
    "usage",
    Operation(
        id="getOwnQuotas",
        route="GET /quotas",
        needs="read *",
        summary="Get the tenant's limits",
        answers=(ok(Quotas, "Its limits.", ETAG),),
    ),
    Operation(
        id="getOwnUsage",
        route="GET /usage",
        needs="read *",
        summary="List the tenant's usage, per hour",
        parameters=(
            FROM,
            TO,
            METRIC,
        ),
        paged=True,
        answers=(ok(UsagePage, "One page, by hour and metric."),),
    ),
    Operation(
        id="getOwnAudit",
        route="GET /audit",
        needs="administer *",
        summary="List changes, and who made them",
        parameters=(
            FROM,
            TO,
            ACTOR,
            ACTION,
            RESOURCE,
            ORDER,
        ),
        paged=True,
        answers=(ok(AuditPage, "One page."),),
    ),
    Operation(
        id="exportOwnAudit",
        route="GET /audit:export",
        needs="administer *",
        summary="Export all changes, and who made them",
        parameters=(
            FROM,
            TO,
            ACTOR,
            ACTION,
            RESOURCE,
            ORDER,
        ),
        answers=(
            ok(str, "Every entry that fits, a line of JSON each.", media="application/x-ndjson"),
        ),
        head=False,
    ),
)
