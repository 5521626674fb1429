"""The caller of a request: made from a verified token, never from anything else in the request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from auth.permissions import EVERY, GRANTABLE, Permission
from edge.caller import Caller


class Grant(NamedTuple):
    """A permission on the names of a kind that match a pattern (`*`: any characters)."""

    permission: Permission
    kind: str
    pattern: str


def everything(permissions: Iterable[Permission] = GRANTABLE) -> frozenset[Grant]:
    """Return grants of those permissions on every name of every kind."""
    return frozenset(Grant(permission, EVERY, EVERY) for permission in permissions)


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller of one tenant. `tenant_id` is 16 bytes; `subject` names the caller in audits.

    `credential` names what the caller came with (a key id, a token's id), for what is dropped when
    that is revoked; `expires_at` is in seconds of the epoch, None for a token without an end.
    """

    tenant_id: bytes
    subject: str
    grants: frozenset[Grant]
    credential: str = ""
    expires_at: float | None = None
    caller: Caller = field(init=False, repr=False, compare=False)
    """The view of the principal for handlers: the same grants, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "caller", Caller(self.grants))

    def may(self, permission: Permission) -> bool:
        """Return whether the permission is granted on any name at all."""
        return self.caller.may_some(permission.value)

    def may_on(self, permission: Permission, kind: str, name: str) -> bool:
        return self.caller.may(permission.value, kind, name)

    def may_all(self, permission: Permission, kind: str) -> bool:
        """Return whether the permission is granted on every name of the kind."""
        return self.caller.may_all(permission.value, kind)
