"""What a principal may do. Every route names exactly one of these; there is no default."""

from __future__ import annotations

import enum


class Permission(enum.Enum):
    """The value is the name a `Route` carries.

    PUBLIC is for what must answer without a token (health, the API's own description): it is
    written out at the route like any other, never implied. SELF is what every valid token allows:
    to look at itself. ADMINISTER is over the tenant's own
    clients, keys, policies and issuers, OPERATE over the installation, above all tenants.
    """

    PUBLIC = "public"
    SELF = "self"
    PUBLISH = "publish"
    CONSUME = "consume"
    LOCK = "lock"
    READ = "read"
    MANAGE = "manage"
    ADMINISTER = "administer"
    OPERATE = "operate"


GRANTABLE = frozenset(Permission) - {Permission.PUBLIC, Permission.SELF}
KINDS = ("topic", "subscription", "schema", "schedule", "snapshot", "lock", "job", "pool")
"""What a grant may be limited to names of."""
EVERY = "*"
"""As a kind: every kind; as a pattern: every name."""
