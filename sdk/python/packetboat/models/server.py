"""The installation: who delivers, and who a token is."""

from __future__ import annotations

from datetime import datetime

import msgspec


class RoleGiven(msgspec.Struct, frozen=True):
    """A role that a policy gives."""

    role: str
    resources: tuple[str, ...]
    policy: str


class WhoAmI(msgspec.Struct, frozen=True):
    """Who a token is, and what it may do."""

    tenant: str
    subject: str
    """`client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`, `operator:NAME` or `dev`."""
    roles: tuple[RoleGiven, ...] = ()
    grants: tuple[str, ...] = ()
    """What the token allows, each as a scope: `permission:resource`."""
    expires_at: datetime | None = None
    token_audience: str | None = None
    """The audience that is this tenant's alone; None from a server of 0.2."""


class ForwarderLoad(msgspec.Struct, frozen=True):
    """Rates are smoothed over five seconds."""

    cpu: float
    """Share of one core, which is all that a process can use."""
    lag_seconds: float
    messages_per_second: float
    bytes_per_second: float
    waiting: int
    """Long-polls that wait and streams that are open."""
    units: int
    """Partitions, and split off parts of them, that it owns."""


class ForwarderUnit(msgspec.Struct, frozen=True):
    """Part of a subscription that a forwarder hands out."""

    topic: str
    partition: int
    messages_per_second: float
    backlog: int
    backlog_growth_per_second: float
    waiting: int
    subscription: str | None = None
    """None: all of the partition but what is split off it."""


class Forwarder(msgspec.Struct, frozen=True):
    """A process that delivers messages."""

    id: str
    role: str
    address: str
    weight: float
    age_seconds: float
    lease_seconds: float
    load: ForwarderLoad | None = None
    """None before its first report."""
    busiest: tuple[ForwarderUnit, ...] = ()


class ForwarderHint(msgspec.Struct, frozen=True):
    """Where the scheduler wants something to be that would be elsewhere without."""

    topic: str
    partition: int
    forwarder: str
    reason: str
    age_seconds: float
    subscription: str | None = None


class Fleet(msgspec.Struct, frozen=True):
    """Who delivers messages."""

    forwarders: tuple[Forwarder, ...]
    hints: tuple[ForwarderHint, ...] = ()


class AccessToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_in` seconds from when it was answered."""

    access_token: str
    token_type: str
    expires_in: int
    scope: str = ""


class Introspection(msgspec.Struct, frozen=True):
    """Whether a token holds; all else is None where it does not."""

    active: bool
    token_type: str | None = None
    iss: str | None = None
    sub: str | None = None
    """Who acts, as audits name it."""
    aud: str | None = None
    exp: int | None = None
    iat: int | None = None
    jti: str | None = None
    client_id: str | None = None
    tenant: str | None = None
    scope: str | None = None
    act: dict[str, str] | None = None
    """The operator that acts in the tenant."""


class IssuerMetadata(msgspec.Struct, frozen=True):
    """Where tokens are got, and the keys that they are signed with."""

    issuer: str
    jwks_uri: str
    token_endpoint: str = ""
    introspection_endpoint: str | None = None
    revocation_endpoint: str | None = None


class SigningKey(msgspec.Struct, frozen=True):
    """A public key, as RFC 7517 has it."""

    kty: str
    kid: str
    alg: str
    use: str = "sig"
    crv: str | None = None
    x: str | None = None
    y: str | None = None
    n: str | None = None
    e: str | None = None


class KeySet(msgspec.Struct, frozen=True):
    """The public keys that tokens are signed with."""

    keys: tuple[SigningKey, ...]
