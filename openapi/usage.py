"""Quotas, usage and the audit of a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import ETAG, NextPageToken
from openapi.contract import Answer, Operation, Parameter, ok, table

Order = Literal["newest", "oldest"]
Choice = Annotated[str, Meta(max_length=512)]


class Limits(Answer):
    """The limits in force; null: no limit."""

    publish_messages_per_second: float | None
    """Messages that are published in a second."""
    publish_bytes_per_second: float | None
    """Bytes that are published in a second."""
    stored_bytes: float | None
    """Bytes that its topics hold."""
    topics: float | None
    """The number of topics."""
    subscriptions: float | None
    """The number of subscriptions."""
    in_flight: float | None
    """Messages that are leased at once, over all subscriptions."""
    push_concurrency: float | None
    """Webhook requests that are under way at once."""
    requests_per_second: float | None
    """Requests of any kind in a second."""


QUOTA_NAMES = Limits.__struct_fields__
"""The names of the limits of a tenant."""


class Quotas(Answer):
    """Limits of a tenant, by name as in `Limits`."""

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
    """The time at which the limits were last set; null where they never were."""


class UsageHour(Answer):
    """A number of one hour."""

    hour: datetime
    """Start of the hour, UTC."""
    metric: str
    """The name of the number, such as `published_messages`."""
    value: float
    """The number, in the unit that its name has."""


class UsagePage(Answer):
    """One page of usage."""

    usage: list[UsageHour]
    """The numbers of this page, by hour."""
    next_page_token: NextPageToken


class AuditSource(Answer):
    """The source of a request."""

    address: str | UnsetType = UNSET
    """The address of the other end of the connection, which may be a proxy."""
    forwarded_for: str | UnsetType = UNSET
    """X-Forwarded-For as the request had it."""


class AuditEntry(Answer):
    """A change, with its author and the status of the answer."""

    id: str
    """The id of the entry."""
    at: datetime
    """The time at which the change began."""
    actor: str
    """`client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`, `operator:NAME` or `dev`; `platform` of
    what was done without a request."""
    action: str
    """The operationId; of the platform `subscriptions.push.` and `disabled`, `enabled`, `verified`
    or `unverified`."""
    resource: str
    """The resource that was changed, such as `topics/orders`."""
    status: int | None
    """Status of the answer; null: it is not known, and the change may have been made."""
    request_id: str
    """The id of the request, as in its answer and in logs."""
    source: AuditSource
    """The source of the request; empty for changes by the platform."""
    members: dict[str, Any]
    """Members of the body, without secrets and payload."""
    query: dict[str, Any]
    """The parameters of the query, without secrets."""
    reason: str | None
    """Reason of a change by the platform, where there is one."""


class AuditPage(Answer):
    """One page of audit entries."""

    entries: list[AuditEntry]
    """The entries of this page."""
    next_page_token: NextPageToken


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
