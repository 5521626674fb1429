"""The caller of a request: made from a verified token, never from anything else in the request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from auth.permissions import EVERY, GRANTABLE, Permission
from edge.caller import Caller, Granted


class Grant(NamedTuple):
    """A permission on the names of a kind that match a pattern (`*`: any characters)."""

    permission: Permission
    kind: str
    pattern: str


def everything(permissions: Iterable[Permission] = GRANTABLE) -> frozenset[Grant]:
    """Return grants of those permissions on every name of every kind."""
    return frozenset(Grant(permission, EVERY, EVERY) for permission in permissions)


@dataclass(frozen=True, slots=True)
class FromPolicies:
    """The grants of a tenant's policies to one subject.

    All subjects share the `granted` of their tenant, whose holders are policies. Two are equal if
    their policies give the same roles on the same resources, and their tokens allow the same.
    """

    digest: bytes
    """The digest of the roles and resources."""
    allowed: frozenset[str]
    """The permissions that the token leaves of those that the roles have."""
    granted: Granted = field(repr=False, compare=False)
    holders: Mapping[str, int] = field(repr=False, compare=False)
    """The policies of the subject that give a permission, by permission."""

    def within(self, scope: Collection[Permission]) -> FromPolicies:
        """Return the grants that a token has whose scope is that."""
        allowed = self.allowed.intersection(each.value for each in scope)
        holders = {name: self.holders[name] for name in allowed}
        return FromPolicies(self.digest, allowed, self.granted, holders)


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller of one tenant. `tenant_id` is 16 bytes; `subject` names the caller in audits.

    `credential` names what the caller came with (a key id, a token's id), for what is dropped when
    that is revoked; `expires_at` is in seconds of the epoch, None for a token without an end.
    """

    tenant_id: bytes
    subject: str
    grants: frozenset[Grant] | FromPolicies
    credential: str = ""
    expires_at: float | None = None
    caller: Caller = field(init=False, repr=False, compare=False)
    """The view of the principal for handlers: the same grants, by name."""

    def __post_init__(self) -> None:
        found = self.grants
        caller = (
            Caller(found.granted, found.holders)
            if isinstance(found, FromPolicies)
            else Caller(found)
        )
        object.__setattr__(self, "caller", caller)

    def may(self, permission: Permission) -> bool:
        """Return whether the permission is granted on any name at all."""
        return self.caller.may_some(permission.value)

    def may_on(self, permission: Permission, kind: str, name: str) -> bool:
        return self.caller.may(permission.value, kind, name)

    def may_all(self, permission: Permission, kind: str) -> bool:
        """Return whether the permission is granted on every name of the kind."""
        return self.caller.may_all(permission.value, kind)
