"""Tenants, for operators of the installation."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    ETAG,
    IF_MATCH,
    TOO_MANY_CHANGES,
    CreatedAt,
    DisplayName,
    Labels,
    Name,
    NameOfPath,
    NextPageToken,
    ShownLabels,
    Total,
    UpdatedAt,
    created,
)
from openapi.contract import Answer, Body, Operation, Parameter, Success, ok, table
from openapi.usage import (
    ACTION,
    ACTOR,
    FROM,
    METRIC,
    ORDER,
    RESOURCE,
    TO,
    AuditPage,
    Limits,
    Quotas,
    UsagePage,
)

State = Literal["active", "suspended", "deleting"]
"""A tenant is active or suspended until it is deleting, which is for good; then its row goes."""
ISSUER_ENTRY = r"https?://[^\s#]+#[^\u0000-\u001f\u007f]+"
"""`ISSUER#AUDIENCE`, as a regular expression."""
DEFAULT_WEIGHT = 1.0
"""The share of a tenant where its operator names none."""
Rate = Annotated[float, Meta(ge=0, le=2**53)]


class FirstOwner(Body):
    """The client to create with a tenant, as its owner."""

    name: Name = "owner"
    """The name of the client."""
    display_name: DisplayName = ""
    """A name for people."""


class TenantBody(Body):
    """A tenant as a whole."""

    name: NameOfPath | UnsetType = UNSET
    display_name: DisplayName = ""
    """A name for people."""
    state: Literal["active", "suspended"] = "active"
    """The credentials of a `suspended` tenant are refused; its data stays."""
    labels: Labels = {}
    egress_allowed: Annotated[list[Annotated[str, Meta(max_length=255)]], Meta(max_length=100)] = []
    """Networks and hosts that its webhooks and issuers may be at although they are not public:
    `10.1.0.0/16`, `hooks.internal:8443`, `http://*.internal`."""
    issuers_allowed: Annotated[
        list[
            Annotated[str, Meta(max_length=768, extra_json_schema={"pattern": f"^{ISSUER_ENTRY}$"})]
        ],
        Meta(max_length=100),
    ] = []
    """`ISSUER#AUDIENCE` of tokens that are its own, as the operator has made sure: it may register
    these without another proof. A tenant's issuer that is taken out of the list holds no more."""
    owner: FirstOwner | None = None
    """The first client, an owner that is made with the tenant. It counts only in that request."""


class Tenant(Answer):
    """A tenant: one of many that share the installation without seeing each other."""

    DESCRIBED_BY = TenantBody

    name: str
    """The name of the tenant, unique in the installation."""
    display_name: str
    state: State
    """suspended: its credentials are refused, what it owns stays."""
    labels: ShownLabels
    egress_allowed: list[str]
    issuers_allowed: list[str]
    token_audience: str
    """An audience that is this tenant's alone. A trusted issuer's token that names it is for this
    tenant, also if other tenants trust the issuer."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class TenantPage(Answer):
    """One page of tenants."""

    tenants: list[Tenant]
    """The tenants of this page, by name."""
    next_page_token: NextPageToken


class FirstOwnerMade(Answer):
    """The first client, if the body asked for one."""

    name: str
    """The name of the client."""
    client_id: str
    """The id by which the client gets tokens."""
    client_secret: str
    """Shown here and never again."""


class TenantMade(Tenant):
    """A tenant with its first client."""

    owner: FirstOwnerMade | UnsetType = UNSET
    """The first client, if the body asked for one."""


class LimitsBody(Body):
    """A limit that is left out is the platform's default; null and 0 are no limit."""

    DESCRIBED_BY = Limits

    publish_messages_per_second: Rate | UnsetType | None = UNSET
    publish_bytes_per_second: Rate | UnsetType | None = UNSET
    stored_bytes: Total | UnsetType | None = UNSET
    topics: Total | UnsetType | None = UNSET
    subscriptions: Total | UnsetType | None = UNSET
    in_flight: Total | UnsetType | None = UNSET
    push_concurrency: Total | UnsetType | None = UNSET
    requests_per_second: Rate | UnsetType | None = UNSET


class QuotaBody(Body):
    """The limits of a tenant and its weight as a whole."""

    limits: LimitsBody | UnsetType = UNSET
    """A limit that is left out is the platform's default; null and 0 are no limit."""
    weight: Annotated[float, Meta(gt=0, le=1000)] = DEFAULT_WEIGHT
    """The tenant's share where tenants compete."""


FORCE_TOPICS = Parameter(
    "force_topics",
    "force",
    "query",
    "Also when it has topics, with all that is published to them.",
    bool,
    default=False,
)

OPERATIONS = table(
    "tenants",
    Operation(
        id="listTenants",
        route="GET /tenants",
        needs="operate *",
        summary="List tenants",
        paged=True,
        answers=(ok(TenantPage, "One page, by name."),),
    ),
    Operation(
        id="createTenant",
        route="POST /tenants",
        needs="operate *",
        summary="Create a tenant",
        body=TenantBody,
        answers=(created(TenantMade, "The tenant."),),
        problems=(
            CONFLICT,
            TOO_MANY_CHANGES,
        ),
    ),
    Operation(
        id="getTenant",
        route="GET /tenants/{tenant}",
        needs="operate *",
        summary="Get a tenant",
        answers=(ok(Tenant, "The tenant.", ETAG),),
    ),
    Operation(
        id="putTenant",
        route="PUT /tenants/{tenant}",
        needs="operate *",
        summary="Create or replace a tenant",
        parameters=(IF_MATCH,),
        body=TenantBody,
        answers=(
            ok(Tenant, "The tenant as it is now.", ETAG),
            created(TenantMade, "The tenant, which was not there."),
        ),
        problems=(
            CONFLICT,
            TOO_MANY_CHANGES,
        ),
    ),
    Operation(
        id="deleteTenant",
        route="DELETE /tenants/{tenant}",
        needs="operate *",
        summary="Delete a tenant",
        parameters=(
            IF_MATCH,
            FORCE_TOPICS,
        ),
        answers=(
            Success(
                202,
                (
                    "From now on its credentials are refused, and all that it has "
                    "goes, step by step. It answers 404 once it is gone."
                ),
                Tenant,
                (ETAG,),
            ),
        ),
        problems=(
            CONFLICT,
            TOO_MANY_CHANGES,
        ),
    ),
    Operation(
        id="getQuotas",
        route="GET /tenants/{tenant}/quotas",
        needs="operate *",
        summary="Get the limits of a tenant",
        answers=(ok(Quotas, "Its limits.", ETAG),),
    ),
    Operation(
        id="putQuotas",
        route="PUT /tenants/{tenant}/quotas",
        needs="operate *",
        summary="Set the limits of a tenant",
        parameters=(IF_MATCH,),
        body=QuotaBody,
        answers=(
            ok(
                Quotas,
                ("Its limits as they are now; every process knows them within seconds."),
                ETAG,
            ),
        ),
        problems=(TOO_MANY_CHANGES,),
    ),
    Operation(
        id="getUsage",
        route="GET /tenants/{tenant}/usage",
        needs="operate *",
        summary="List the usage of a tenant, per hour",
        parameters=(
            FROM,
            TO,
            METRIC,
        ),
        paged=True,
        answers=(ok(UsagePage, "One page, by hour and metric."),),
    ),
    Operation(
        id="getAudit",
        route="GET /tenants/{tenant}/audit",
        needs="operate *",
        summary="List the changes of a tenant",
        description="`platform` is the tenant of operators: what they did to tenants is there.",
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
        id="exportAudit",
        route="GET /tenants/{tenant}/audit:export",
        needs="operate *",
        summary="Export the changes of a tenant",
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
