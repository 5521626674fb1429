# Generated from openapi/: `make generate`. Do not edit.
"""The installation: the processes that deliver, and the holder of a token."""

from __future__ import annotations

from datetime import datetime

import msgspec


class RoleGiven(msgspec.Struct, frozen=True):
    """A role that a policy gives."""

    role: str
    resources: tuple[str, ...]
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
    waiting: int
    """Long-polls that wait and streams that are open."""
    units: int
    """Partitions, and split off parts of them, that it owns."""


class ForwarderUnit(msgspec.Struct, frozen=True):
    """A part of a subscription that it delivers."""

    topic: str
    partition: int
    messages_per_second: float
    backlog: int
    """Messages that are not settled."""
    backlog_growth_per_second: float
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
    partition: int
    forwarder: str
    reason: str
    age_seconds: float
    subscription: str | None = None
    """None for all of the partition except the parts that are split off it."""


class Fleet(msgspec.Struct, frozen=True):
    """The processes that deliver messages."""

    forwarders: tuple[Forwarder, ...]
    hints: tuple[ForwarderHint, ...] = ()


class AccessToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_in` counts from when it was answered."""

    access_token: str
    token_type: str
    expires_in: int
    """Seconds until the token ends."""
    scope: str = ""


class Introspection(msgspec.Struct, frozen=True):
    """The answer whether a token holds; all else is None where it does not."""

    active: bool
    token_type: str | None = None
    iss: str | None = None
    sub: str | None = None
    """The caller, as audits name it."""
    aud: str | None = None
    exp: int | None = None
    iat: int | None = None
    jti: str | None = None
    client_id: str | None = None
    tenant: str | None = None
    """The tenant's id."""
    scope: str | None = None
    act: dict[str, str] | None = None
    """The operator that acts in the tenant."""


class IssuerMetadata(msgspec.Struct, frozen=True):
    """The places of the token endpoints, and of the keys that tokens are signed with."""

    issuer: str
    jwks_uri: str
    token_endpoint: str = ""
    response_types_supported: tuple[str, ...] = ()
    introspection_endpoint: str | None = None
    revocation_endpoint: str | None = None


class SigningKey(msgspec.Struct, frozen=True):
    """A public key in the form of RFC 7517."""

    kty: str
    kid: str
    alg: str
    use: str = "sig"
    crv: str | None = None
    """The curve of an elliptic key."""
    x: str | None = None
    """The public key of an Ed25519 key, or the first coordinate of another elliptic one."""
    y: str | None = None
    n: str | None = None
    """The modulus of an RSA key."""
    e: str | None = None
    """The exponent of an RSA key."""


class KeySet(msgspec.Struct, frozen=True):
    """The public keys that tokens are signed with."""

    keys: tuple[SigningKey, ...]
