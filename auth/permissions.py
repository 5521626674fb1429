"""What a principal may do. Every route names exactly one of these; there is no default."""

from __future__ import annotations

import enum


class Permission(enum.StrEnum):
    """The value is the name a `Route` carries.

    PUBLIC is for what must answer without a token (health, the API's own description): it is
    written out at the route like any other, never implied. SELF is what every valid token allows:
    to look at itself. ADMINISTER is over the tenant's own
    clients, keys, policies and issuers, OPERATE over the installation, above all tenants.
    RUN_EXPORTS is what a process needs that makes the runs of exports, of all tenants.
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
    RUN_EXPORTS = "run_exports"


GRANTABLE = frozenset(Permission) - {Permission.PUBLIC, Permission.SELF}
OF_OPERATORS = frozenset({Permission.OPERATE, Permission.RUN_EXPORTS})
"""What is above tenants: no tenant can grant it, and it is of no use inside one."""
KINDS = (
    *("topic", "subscription", "schema", "schedule", "snapshot", "lock"),
    *("job", "pool", "export"),
)
"""What a grant may be limited to names of."""
EVERY = "*"
"""As a kind: every kind; as a pattern: every name."""
