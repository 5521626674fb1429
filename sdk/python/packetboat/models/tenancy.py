"""Tenants, and who may do what in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec

Role = Literal["owner", "admin", "publisher", "subscriber", "viewer"]


class FirstOwner(msgspec.Struct, frozen=True):
    """The client to make with a tenant, as its owner."""

    name: str = "owner"
    display_name: str = ""


class TenantSettings(TypedDict, total=False):
    """All of a tenant that is given; what is not given has the server's default."""

    display_name: str
    state: Literal["active", "suspended"]
    """suspended: its credentials are refused, what it owns stays."""
    labels: Mapping[str, str]
    egress_allowed: tuple[str, ...]
    """Networks and hosts that its webhooks may be at although they are not public."""
    issuers_allowed: tuple[str, ...]
    """`ISSUER#AUDIENCE` of tokens that are its own, without another proof."""
    owner: FirstOwner | None
    """Counts only when the tenant is made."""


class Owner(msgspec.Struct, frozen=True):
    """The first client of a tenant."""

    name: str
    client_id: str
    client_secret: str
    """Shown here and never again."""


class Tenant(msgspec.Struct, frozen=True):
    """One of many who share the installation without seeing each other."""

    name: str
    display_name: str
    state: str
    """`active`, `suspended` or `deleting`."""
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
    egress_allowed: tuple[str, ...] = ()
    issuers_allowed: tuple[str, ...] = ()
    token_audience: str | None = None
    """The audience that is this tenant's alone; None from a server of 0.2."""
    owner: Owner | None = None
    """Only in the answer that made it."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class SecretShown(msgspec.Struct, frozen=True):
    """A secret, by how it begins."""

    prefix: str
    created_at: datetime
    expires_at: datetime | None = None


class ClientSettings(TypedDict, total=False):
    """All of a client that is given; what is not given has the server's default."""

    display_name: str
    state: Literal["active", "disabled"]
    """disabled: its secrets and its tokens are refused."""
    labels: Mapping[str, str]


class OAuthClient(msgspec.Struct, frozen=True):
    """A program that gets access tokens with a secret."""

    name: str
    client_id: str
    display_name: str
    state: str
    created_at: datetime
    updated_at: datetime
    secrets: tuple[SecretShown, ...] = ()
    labels: dict[str, str] = {}
    tokens_valid_from: datetime | None = None
    """Tokens issued before are refused; None: none was revoked."""
    last_used_at: datetime | None = None
    client_secret: str | None = None
    """Only in the answer that made it, and never again."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class KeySettings(TypedDict, total=False):
    """What an API key may be made with beside its scopes."""

    expires_at: datetime | None
    state: Literal["active", "disabled"]
    labels: Mapping[str, str]


class Key(msgspec.Struct, frozen=True):
    """An API key."""

    name: str
    key_id: str
    prefix: str
    """How the key begins."""
    scopes: tuple[str, ...]
    state: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    labels: dict[str, str] = {}
    secrets: tuple[SecretShown, ...] = ()
    last_used_at: datetime | None = None
    key: str | None = None
    """Only in the answer that made it, and never again."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class Policy(msgspec.Struct, frozen=True):
    """A role, who has it, and for what."""

    name: str
    role: str
    members: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    resources: tuple[str, ...] = ("*",)
    labels: dict[str, str] = {}
    etag: str | None = None
    """For `if_match`; None in a listing."""


class IssuerSettings(TypedDict, total=False):
    """What an issuer may be made with beside its address and audience."""

    algorithms: tuple[str, ...]
    """RS256 unless given."""
    subject_claim: str
    """The claim that says who it is; `sub` unless given."""
    required_claims: Mapping[str, str]
    """Claims that must have these values."""
    labels: Mapping[str, str]


class Issuer(msgspec.Struct, frozen=True):
    """Another issuer whose tokens hold here."""

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
    """Why its tokens are this tenant's: `audience`, `document`, `operator`; `unproved` or
    `withdrawn`; None from a server of 0.2."""
    etag: str | None = None
    """For `if_match`; None in a listing."""
