# Generated from openapi/: `make generate`. Do not edit.
"""Tenants, and who may do what in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypedDict

import msgspec

Role = Literal["owner", "admin", "publisher", "subscriber", "viewer"]


class FirstOwner(msgspec.Struct, frozen=True):
    """The client to create with a tenant, as its owner."""

    name: str = "owner"
    display_name: str = ""


class TenantSettings(TypedDict, total=False):
    """Fields of a tenant; the others get the server's defaults."""

    display_name: str
    """A name for people."""
    state: Literal["active", "suspended"]
    """The credentials of a `suspended` tenant are refused; its data stays."""
    labels: Mapping[str, str]
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
    client_id: str
    client_secret: str
    """Shown here and never again."""


class Tenant(msgspec.Struct, frozen=True):
    """A tenant: one of many that share the installation without seeing each other."""

    name: str
    display_name: str
    state: str
    """suspended: its credentials are refused, what it owns stays."""
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
    egress_allowed: tuple[str, ...] = ()
    issuers_allowed: tuple[str, ...] = ()
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
    expires_at: datetime | None = None


class ClientSettings(TypedDict, total=False):
    """Fields of a client; the others get the server's defaults."""

    display_name: str
    """A name for people."""
    state: Literal["active", "disabled"]
    """The secrets and tokens of a `disabled` client are refused."""
    labels: Mapping[str, str]


class OAuthClient(msgspec.Struct, frozen=True):
    """A program that gets access tokens with a secret."""

    name: str
    client_id: str
    display_name: str
    state: str
    """disabled: its secrets and its tokens are refused."""
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
    secrets: tuple[SecretShown, ...] = ()
    tokens_valid_from: datetime | None = None
    """Tokens issued before are refused; None: none was revoked."""
    last_used_at: datetime | None = None
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


class Key(msgspec.Struct, frozen=True):
    """An API key."""

    name: str
    key_id: str
    prefix: str
    """The first characters of the key."""
    state: str
    created_at: datetime
    updated_at: datetime
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    labels: dict[str, str] = {}
    secrets: tuple[SecretShown, ...] = ()
    last_used_at: datetime | None = None
    key: str | None = None
    """Shown here and never again."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Policy(msgspec.Struct, frozen=True):
    """A role, with its members and the resources that it is for."""

    name: str
    role: str
    created_at: datetime
    updated_at: datetime
    members: tuple[str, ...] = ()
    resources: tuple[str, ...] = ("*",)
    labels: dict[str, str] = {}
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


class Issuer(msgspec.Struct, frozen=True):
    """Another issuer, whose tokens the tenant trusts."""

    name: str
    issuer: str
    audience: str
    created_at: datetime
    updated_at: datetime
    algorithms: tuple[str, ...] = ()
    subject_claim: str = "sub"
    required_claims: dict[str, str] = {}
    labels: dict[str, str] = {}
    trust: str | None = None
    """The proof that its tokens are this tenant's. audience: they name the tenant's own audience;
    document: a document of the issuer names the tenant; operator: the installation's operator
    allowed it; unproved: it was registered before a proof was asked for, and holds while no other
    tenant's claim fits a token; withdrawn: the operator took it back, and no token holds."""
    etag: str | None = None
    """For `if_match`; None in a listing."""
