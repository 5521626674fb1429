# Generated from openapi/: `make generate`. Do not edit.
"""Tenants, who may do what in them, their limits and usage, and the installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

Role = Literal["owner", "admin", "publisher", "subscriber", "viewer"]
Order = Literal["newest", "oldest"]


class FirstOwner(msgspec.Struct, frozen=True):
    """The client to create with a tenant, as its owner."""

    name: str = "owner"
    """The name of the client."""
    display_name: str = ""
    """A name for people."""


class TenantSettings(TypedDict, total=False):
    """Fields of a tenant; the others get the server's defaults."""

    display_name: str
    """A name for people."""
    state: Literal["active", "suspended"]
    """The credentials of a `suspended` tenant are refused; its data stays."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""
    egress_allowed: Sequence[str]
    """Networks and hosts that its webhooks and issuers may be at although they are not public:
    `10.1.0.0/16`, `hooks.internal:8443`, `http://*.internal`."""
    issuers_allowed: Sequence[str]
    """`ISSUER#AUDIENCE` of tokens that are its own, as the operator has made sure: it may register
    these without another proof. A tenant's issuer that is taken out of the list holds no more."""
    owner: FirstOwner | None
    """The first client, an owner that is made with the tenant. It counts only in that request."""


class Owner(msgspec.Struct, frozen=True):
    """The first client of a tenant."""

    name: str
    """The name of the client."""
    client_id: str
    """The id by which the client gets tokens."""
    client_secret: str
    """Shown here and never again."""


class Tenant(msgspec.Struct, frozen=True):
    """A tenant: one of many that share the installation without seeing each other."""

    name: str
    """The name of the tenant, unique in the installation."""
    display_name: str
    """A name for people."""
    state: str
    """suspended: its credentials are refused, what it owns stays."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    egress_allowed: tuple[str, ...] = ()
    """Networks and hosts that its webhooks and issuers may be at although they are not public:
    `10.1.0.0/16`, `hooks.internal:8443`, `http://*.internal`."""
    issuers_allowed: tuple[str, ...] = ()
    """`ISSUER#AUDIENCE` of tokens that are its own, as the operator has made sure: it may register
    these without another proof. A tenant's issuer that is taken out of the list holds no more."""
    token_audience: str | None = None
    """An audience that is this tenant's alone. A trusted issuer's token that names it is for this
    tenant, also if other tenants trust the issuer."""
    owner: Owner | None = None
    """The first client, if the body asked for one."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class SecretShown(msgspec.Struct, frozen=True):
    """A secret, by its first characters."""

    prefix: str
    """The first characters of the secret, after the prefix that all of its kind have."""
    created_at: datetime
    """The time at which it was created."""
    expires_at: datetime | None = None
    """The time from which it is refused; None: never."""


class ClientSettings(TypedDict, total=False):
    """Fields of a client; the others get the server's defaults."""

    display_name: str
    """A name for people."""
    state: Literal["active", "disabled"]
    """The secrets and tokens of a `disabled` client are refused."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""


class OAuthClient(msgspec.Struct, frozen=True):
    """A program that gets access tokens with a secret."""

    name: str
    """The name of the client."""
    client_id: str
    """The id by which the client gets tokens."""
    display_name: str
    """A name for people."""
    state: str
    """The secrets and tokens of a `disabled` client are refused."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    secrets: tuple[SecretShown, ...] = ()
    """The secrets that hold, of which a rotation leaves two for a time."""
    tokens_valid_from: datetime | None = None
    """Tokens issued before are refused; None: none was revoked."""
    last_used_at: datetime | None = None
    """The time at which it last got a token; None: never."""
    client_secret: str | None = None
    """Shown here and never again."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class KeySettings(TypedDict, total=False):
    """Fields of an API key beside its scopes."""

    expires_at: datetime | None
    """The time from which the key is refused (RFC 3339); None: never."""
    state: Literal["active", "disabled"]
    """A `disabled` key is refused."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""


class Key(msgspec.Struct, frozen=True):
    """An API key."""

    name: str
    """The name of the key."""
    key_id: str
    """The part that is the same in all secrets of this key."""
    prefix: str
    """The first characters of the key."""
    state: str
    """A `disabled` key is refused."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    scopes: tuple[str, ...] = ()
    """All that it may do: permissions, each alone or with a resource: `read`,
    `publish:topics/orders-*`."""
    expires_at: datetime | None = None
    """The time from which the key is refused (RFC 3339); None: never."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    secrets: tuple[SecretShown, ...] = ()
    """The keys that hold, of which a rotation leaves two for a time."""
    last_used_at: datetime | None = None
    """The time of its last use; None: never."""
    key: str | None = None
    """Shown here and never again."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Policy(msgspec.Struct, frozen=True):
    """A role, with its members and the resources that it is for."""

    name: str
    """The name of the policy."""
    role: str
    """The role of the members: each has its permissions on the resources."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    members: tuple[str, ...] = ()
    """`client:NAME`, or `issuer:NAME#SUBJECT` for what an issuer says; `*` stands for any
    characters."""
    resources: tuple[str, ...] = ("*",)
    """`*` for everything, or `topics/NAME`, `subscriptions/NAME`, `schemas/NAME`, `schedules/NAME`,
    `snapshots/NAME`, `locks/NAME`, `jobs/NAME`, `pools/NAME`, `exports/NAME`; `*` stands for any
    characters."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class IssuerSettings(TypedDict, total=False):
    """Fields of an issuer beside its address and audience."""

    algorithms: Sequence[str]
    """The algorithms that may sign its tokens."""
    subject_claim: str
    """The claim that says who it is."""
    required_claims: Mapping[str, str]
    """Claims that must have these values."""
    labels: Mapping[str, str]
    """Names and values that you choose; servers only keep and show them."""


class Issuer(msgspec.Struct, frozen=True):
    """Another issuer, whose tokens the tenant trusts."""

    name: str
    """The name of the issuer in the tenant."""
    issuer: str
    """The `iss` of its tokens; its keys are found by it (OpenID Connect Discovery)."""
    audience: str
    """The `aud` that its tokens must name."""
    created_at: datetime
    """The time at which it was created."""
    updated_at: datetime
    """The time of its last change."""
    algorithms: tuple[str, ...] = ()
    """The algorithms that may sign its tokens."""
    subject_claim: str = "sub"
    """The claim that says who it is."""
    required_claims: dict[str, str] = {}
    """Claims that must have these values."""
    labels: dict[str, str] = {}
    """Names and values that you choose; servers only keep and show them."""
    trust: str | None = None
    """The proof that its tokens are this tenant's. audience: they name the tenant's own audience;
    document: a document of the issuer names the tenant; operator: the installation's operator
    allowed it; unproved: it was registered before a proof was asked for, and holds while no other
    tenant's claim fits a token; withdrawn: the operator took it back, and no token holds."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Limits(TypedDict, total=False):
    """Limits of a tenant; one left out has the platform's default, None and 0 are no limit."""

    publish_messages_per_second: float | None
    """Messages that are published in a second."""
    publish_bytes_per_second: float | None
    """Bytes that are published in a second."""
    stored_bytes: int | None
    """Bytes that its topics hold."""
    topics: int | None
    """The number of topics."""
    subscriptions: int | None
    """The number of subscriptions."""
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
    """The time at which the limits were last set; None where they never were."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class UsageHour(msgspec.Struct, frozen=True):
    """A number of one hour."""

    hour: datetime
    """Start of the hour, UTC."""
    metric: str
    """The name of the number, such as `published_messages`."""
    value: float
    """The number, in the unit that its name has."""


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
    """The address of the other end of the connection, which may be a proxy."""
    forwarded_for: str | None = None
    """X-Forwarded-For as the request had it."""


class AuditEntry(msgspec.Struct, frozen=True):
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
    request_id: str
    """The id of the request, as in its answer and in logs."""
    status: int | None = None
    """Status of the answer; None: it is not known, and the change may have been made."""
    source: AuditSource = AuditSource()
    """The source of the request; empty for changes by the platform."""
    members: dict[str, Any] = {}
    """Members of the body, without secrets and payload."""
    query: dict[str, Any] = {}
    """The parameters of the query, without secrets."""
    reason: str | None = None
    """Reason of a change by the platform, where there is one."""


class RoleGiven(msgspec.Struct, frozen=True):
    """A role that a policy gives."""

    role: str
    """The role, whose permissions hold on the resources."""
    resources: tuple[str, ...]
    """The resources that the role is for, as in the policy."""
    policy: str
    """The name of the policy."""


class WhoAmI(msgspec.Struct, frozen=True):
    """The holder of a token, with what the token allows."""

    tenant: str
    """The tenant's name."""
    subject: str
    """The caller, as audits name it: `client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`,
    `operator:NAME` or `dev`."""
    roles: tuple[RoleGiven, ...] = ()
    """The roles that the tenant's policies give this subject."""
    grants: tuple[str, ...] = ()
    """Permissions of the token, each written as a scope of an API key, `permission:resource`."""
    token_audience: str | None = None
    """The audience that is this tenant's alone, for tokens of issuers that it trusts."""
    expires_at: datetime | None = None
    """The end of the token; None for a token without an end."""


class ForwarderLoad(msgspec.Struct, frozen=True):
    """Rates are smoothed over five seconds."""

    cpu: float
    """Share of one core, which is all that a process can use."""
    lag_seconds: float
    """The longest that its event loop was late, in the last second."""
    messages_per_second: float
    """Deliveries a second; each attempt counts."""
    bytes_per_second: float
    """Bytes of message bodies that are delivered in a second."""
    waiting: int
    """Long-polls that wait and streams that are open."""
    units: int
    """Partitions, and split off parts of them, that it owns."""


class ForwarderUnit(msgspec.Struct, frozen=True):
    """A part of a subscription that a forwarder delivers."""

    topic: str
    """The name of the topic."""
    partition: int
    """The number of the partition, from 0."""
    messages_per_second: float
    """Deliveries a second; each attempt counts."""
    backlog: int
    """Messages that are not settled."""
    backlog_growth_per_second: float
    """Messages a second by which its backlog grows; less than 0 where it shrinks."""
    waiting: int
    """The number of consumers that wait for messages."""
    subscription: str | None = None
    """None for all of the partition except the parts that are split off it."""


class Forwarder(msgspec.Struct, frozen=True):
    """A process that delivers messages."""

    id: str
    """The id of the process until it ends; it takes another one after a lost lease."""
    role: str
    """`subscribe`, or `subscribe-leaving` for one that has handed over what it owned."""
    address: str
    """The address at which other forwarders reach it."""
    weight: float
    """The share of the topics that it should own, in proportion to other forwarders."""
    age_seconds: float
    """Seconds since the process began."""
    lease_seconds: float
    """Seconds until others take over, unless it renews its lease."""
    load: ForwarderLoad | None = None
    """None before its first report."""
    busiest: tuple[ForwarderUnit, ...] = ()
    """The parts of subscriptions with the most deliveries lately: those of the tenant, among the
    first 16."""


class ForwarderHint(msgspec.Struct, frozen=True):
    """A wish of the scheduler that a forwarder owns something which another would own."""

    topic: str
    """The name of the topic."""
    partition: int
    """The number of the partition, from 0."""
    forwarder: str
    """The id of the forwarder that is to own it."""
    reason: str
    """The reason of the wish, for people."""
    age_seconds: float
    """Seconds since the scheduler said it."""
    subscription: str | None = None
    """None for all of the partition except the parts that are split off it."""


class Fleet(msgspec.Struct, frozen=True):
    """The processes that deliver messages."""

    forwarders: tuple[Forwarder, ...]
    """The processes that are alive, the oldest first."""
    hints: tuple[ForwarderHint, ...] = ()
    """The wishes that hold now."""


class AccessToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_in` counts from when it was answered."""

    access_token: str
    """The token, for the header `Authorization`."""
    token_type: str
    """The way to use the token: as a bearer token."""
    expires_in: int
    """Seconds until the token ends."""
    scope: str = ""
    """The permissions that the token is bounded to, divided by spaces."""


class Introspection(msgspec.Struct, frozen=True):
    """The answer whether a token holds; all else is None where it does not."""

    active: bool
    """Whether the token holds; all else is missing where it does not."""
    token_type: str | None = None
    """The way to use the token, `Bearer`."""
    iss: str | None = None
    """The issuer of the token, which is this installation."""
    sub: str | None = None
    """The caller, as audits name it."""
    aud: str | None = None
    """The audience of the token, which is this installation's API."""
    exp: int | None = None
    """The time at which the token ends, in seconds since 1970."""
    iat: int | None = None
    """The time at which the token was issued, in seconds since 1970."""
    jti: str | None = None
    """The id of the token."""
    client_id: str | None = None
    """The id of the client that got the token."""
    tenant: str | None = None
    """The tenant's id."""
    scope: str | None = None
    """The permissions that the token is bounded to, divided by spaces."""
    act: dict[str, str] | None = None
    """The operator that acts in the tenant."""


class IssuerMetadata(msgspec.Struct, frozen=True):
    """The places of the token endpoints, and of the keys that tokens are signed with."""

    issuer: str
    """The `iss` of the tokens of this installation."""
    jwks_uri: str
    """The URL of the public keys that tokens are signed with."""
    token_endpoint: str = ""
    """The URL at which clients get tokens."""
    response_types_supported: tuple[str, ...] = ()
    """The response types of RFC 6749; empty, because tokens come from the token endpoint alone."""
    introspection_endpoint: str | None = None
    """The URL at which clients ask whether a token holds."""
    revocation_endpoint: str | None = None
    """The URL at which clients revoke tokens."""


class SigningKey(msgspec.Struct, frozen=True):
    """A public key in the form of RFC 7517."""

    kty: str
    """The kind of key: `OKP`, `EC` or `RSA`."""
    kid: str
    """The id of the key, which the header of a token names."""
    alg: str
    """The algorithm that signs with it."""
    use: str = "sig"
    """The use of the key, `sig`: it signs."""
    crv: str | None = None
    """The curve of an elliptic key."""
    x: str | None = None
    """The public key of an Ed25519 key, or the first coordinate of another elliptic one."""
    y: str | None = None
    """The second coordinate of an elliptic key, where it has two."""
    n: str | None = None
    """The modulus of an RSA key."""
    e: str | None = None
    """The exponent of an RSA key."""


class KeySet(msgspec.Struct, frozen=True):
    """The public keys that tokens are signed with."""

    keys: tuple[SigningKey, ...]
    """The keys, those of earlier tokens that still hold included."""
