"""What a principal may do. Every route names exactly one of these; there is no default."""

from __future__ import annotations

import enum


class Permission(enum.Enum):
    """The value is the name a `Route` carries.

    PUBLIC is for what must answer without a token (health, the API's own description): it is
    written out at the route like any other, never implied.
    """

    PUBLIC = "public"
    PUBLISH = "publish"
    CONSUME = "consume"
    READ = "read"
    MANAGE = "manage"
    OPERATE = "operate"


GRANTABLE = frozenset(Permission) - {Permission.PUBLIC}
