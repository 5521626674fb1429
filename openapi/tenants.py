"""Tenants, for operators of the installation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    ETAG,
    IF_MATCH,
    TOO_MANY_CHANGES,
    Labels,
    Name,
    Total,
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
    Quotas,
    UsagePage,
)

State = Literal["active", "suspended", "deleting"]
DisplayName = Annotated[str, Meta(max_length=255, pattern=r"^[^\u0000-\u001f\u007f]*\Z")]
PublishMessagesPerSecond = Annotated[float, Meta(ge=0, le=2**53)]


class Tenant(Answer):
    name: str
    display_name: str
    state: State
    """suspended: its credentials are refused, what it owns stays."""
    labels: dict[str, str]
    egress_allowed: list[str]
    issuers_allowed: list[str]
    token_audience: str
    """An audience that is this tenant's alone. A trusted issuer's token that names it is for this
    tenant, whoever else trusts the issuer."""
    created_at: datetime
    updated_at: datetime


class TenantPage(Answer):
    tenants: list[Tenant]
    next_page_token: str | None


class FirstOwner(Body):
    name: Name = "owner"
    display_name: DisplayName = ""


class TenantBody(Body):
    name: Name | UnsetType = UNSET
    """POST: its name. PUT: that of the path, or left out."""
    display_name: DisplayName = ""
    state: Literal["active", "suspended"] = "active"
    labels: Labels | UnsetType = UNSET
    egress_allowed: (
        Annotated[list[Annotated[str, Meta(max_length=255)]], Meta(max_length=100)] | UnsetType
    ) = UNSET
    """Networks and hosts that its webhooks and issuers may be at although they are not public:
    `10.1.0.0/16`, `hooks.internal:8443`, `http://*.internal`."""
    issuers_allowed: (
        Annotated[
            list[
                Annotated[
                    str,
                    Meta(max_length=768, pattern=r"^https?://[^\s#]+#[^\u0000-\u001f\u007f]+\Z"),
                ]
            ],
            Meta(max_length=100),
        ]
        | UnsetType
    ) = UNSET
    """`ISSUER#AUDIENCE` of tokens that are its own, as the operator has made sure: it may register
    these without another proof. What is taken out holds no more."""
    owner: FirstOwner | None = None
    """Its first client, made with it: an owner. Counts only when the tenant is made."""


class FirstOwnerMade(Answer):
    """Its first client, where the body asked for one."""

    name: str
    client_id: str
    client_secret: str
    """Shown here and never again."""


class TenantMade(Answer):
    name: str
    display_name: str
    state: State
    """suspended: its credentials are refused, what it owns stays."""
    labels: dict[str, str]
    egress_allowed: list[str]
    issuers_allowed: list[str]
    token_audience: str
    """An audience that is this tenant's alone. A trusted issuer's token that names it is for this
    tenant, whoever else trusts the issuer."""
    created_at: datetime
    updated_at: datetime
    owner: FirstOwnerMade | UnsetType = UNSET
    """Its first client, where the body asked for one."""


class LimitsBody(Body):
    """What is not named has the platform's default; null and 0: no limit."""

    publish_messages_per_second: PublishMessagesPerSecond | None = None
    """Messages that are published in a second."""
    publish_bytes_per_second: PublishMessagesPerSecond | None = None
    """Bytes that are published in a second."""
    stored_bytes: Total | None = None
    """Bytes that its topics hold."""
    topics: Total | None = None
    """How many there may be."""
    subscriptions: Total | None = None
    """How many there may be."""
    in_flight: Total | None = None
    """Messages that are leased at once, over all subscriptions."""
    push_concurrency: Total | None = None
    """Webhook requests that are under way at once."""
    requests_per_second: PublishMessagesPerSecond | None = None
    """Requests of any kind in a second."""


class QuotaBody(Body):
    limits: LimitsBody | UnsetType = UNSET
    """What is not named has the platform's default; null and 0: no limit."""
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0


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
        summary="What a tenant may use",
        answers=(ok(Quotas, "Its limits.", ETAG),),
    ),
    Operation(
        id="putQuotas",
        route="PUT /tenants/{tenant}/quotas",
        needs="operate *",
        summary="Say what a tenant may use",
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
        summary="What a tenant used, per hour",
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
        summary="Who changed what in a tenant",
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
        summary="Who changed what in a tenant, all of it",
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
