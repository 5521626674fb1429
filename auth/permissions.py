"""The permissions of principals; every route names exactly one, and there is no default."""

from __future__ import annotations

import enum


class Permission(enum.StrEnum):
    """A permission; its value is the name that a `Route` carries.

    PUBLIC is for routes that must answer without a token (health, the API's own description): it is
    written out at the route like any other, never implied. SELF is what every valid token allows: a
    look at the token itself. ADMINISTER is for the tenant's own clients, keys, policies and
    issuers, OPERATE for the installation, above all tenants. RUN_EXPORTS is for a process that
    makes the runs of exports of all tenants.
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
"""Permissions above tenants; no tenant can grant them, and they are of no use inside one."""
KINDS = (
    *("topic", "subscription", "schema", "schedule", "snapshot", "lock"),
    *("job", "pool", "export"),
)
"""Kinds of resources to whose names a grant may be limited."""
EVERY = "*"
"""Every kind, if it stands for a kind; every name, if it stands for a pattern."""
