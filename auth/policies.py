"""The grants of policies and scopes: which subjects have which permissions on which names.

A policy binds a role to members on resources. Members are `client:NAME`, `key:NAME` and
`issuer:NAME#SUBJECT`; resources are `topics/NAME`, `subscriptions/NAME` and so on, or `*` for
everything. `*` in a NAME or SUBJECT stands for any characters.

A scope of an API key is a permission, or a permission and a resource: `read`,
`publish:topics/orders-*`. A key may do only what its scopes allow; no policy adds to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from auth.known import Known
from auth.permissions import EVERY, GRANTABLE, KINDS, OF_OPERATORS, Permission
from auth.principal import FromPolicies, Grant
from edge.caller import Granted, fits
from edge.slices import Slices
from metadata.tenancy.policies import Policy, PolicyRepository
from metadata.types import Change, ChangeKind

OF_TENANTS = GRANTABLE - OF_OPERATORS
"""Permissions that a tenant can grant."""
ROLES: Mapping[str, frozenset[Permission]] = {
    "owner": OF_TENANTS,
    "admin": OF_TENANTS - {Permission.ADMINISTER},
    "publisher": frozenset({Permission.PUBLISH, Permission.LOCK}),
    "subscriber": frozenset({Permission.CONSUME, Permission.LOCK, Permission.READ}),
    "viewer": frozenset({Permission.READ}),
}
PLURALS: Mapping[str, str] = {f"{kind}s": kind for kind in KINDS}
"""The first part of a resource, and the kind that it stands for."""
MEMBERS = ("client", "key", "issuer")
MAX_CHARACTERS = 256
"""Characters of a member, resource or scope."""
MAX_SUBJECTS = 1_000
"""Subjects of a tenant whose policies are remembered."""


class BadGrant(ValueError):
    """A resource, scope or member that is not written as it must be; the text says how."""


class Resource(NamedTuple):
    kind: str
    pattern: str

    def __str__(self) -> str:
        return EVERY if self.kind == EVERY else f"{self.kind}s/{self.pattern}"


def parse_resource(text: str) -> Resource:
    """Parse a resource. Raises BadGrant."""
    if text == EVERY:
        return Resource(EVERY, EVERY)
    plural, slash, pattern = text.partition("/")
    if not slash or not pattern or plural not in PLURALS or len(text) > MAX_CHARACTERS:
        raise BadGrant(
            f"a resource is *, or one of {', '.join(PLURALS)}, a slash and a name in which * stands"
            " for any characters"
        )
    return Resource(PLURALS[plural], pattern)


def is_resource(text: str) -> bool:
    """Return whether this version knows the resource; a later one may have written it."""
    try:
        parse_resource(text)
    except BadGrant:
        return False
    return True


def parse_scope(text: str) -> Grant:
    """Parse a scope of an API key. Raises BadGrant."""
    name, colon, resource = text.partition(":")
    permission = next((each for each in OF_TENANTS if each.value == name), None)
    if permission is None or (colon and not resource):
        names = ", ".join(sorted(each.value for each in OF_TENANTS))
        raise BadGrant(f"a scope is one of {names}, alone or followed by : and a resource")
    kind, pattern = parse_resource(resource) if colon else Resource(EVERY, EVERY)
    return Grant(permission, kind, pattern)


def check_member(text: str) -> None:
    """Check the form of a member. Raises BadGrant."""
    kind, _, name = text.partition(":")
    issuer, mark, subject = name.partition("#")
    named = issuer and mark and subject if kind == "issuer" else name
    if kind not in MEMBERS or not named or len(text) > MAX_CHARACTERS:
        raise BadGrant("a member is client:NAME, key:NAME or issuer:NAME#SUBJECT")


def is_member(member: str, subject: str) -> bool:
    """Return whether a member of a policy matches a subject.

    Parts are compared one by one: no `*` reaches from the name of an issuer into the issuer's
    subject.
    """
    wanted, given = _parts(member), _parts(subject)
    return len(wanted) == len(given) and all(map(fits, wanted, given))


def _parts(member: str) -> tuple[str, ...]:
    """Return the kind and the name of a member; an issuer's name has two parts."""
    kind, _, name = member.partition(":")
    if kind != "issuer":
        return kind, name
    issuer, _, who = name.partition("#")
    return kind, issuer, who


def _whole(member: str) -> str:
    """Return an issuer's member with its `#`, so that it begins as the subjects that it matches
    do.
    """
    return f"{member}#" if member.startswith("issuer:") and "#" not in member else member


class _PolicyGrant(NamedTuple):
    holder: int
    digest: bytes
    permissions: frozenset[Permission]


class Members:
    """The policies of a tenant by their members, so that a look-up does not go through all members.

    A member without `*` is found by its text. The others are found by the characters before their
    first `*`, and only these are compared, a slice of them in each turn of the loop. The resources
    of all policies are in one `Granted`, whose holders are the policies; an unknown role or
    resource grants nothing.
    """

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        self.policies = policies
        self.granted = Granted()
        self._gives: dict[str, _PolicyGrant] = {}
        """The effect of each policy, by the policy's name."""
        self._exact: dict[str, list[int]] = {}
        self._by_prefix: dict[str, dict[str, list[int]]] = {}
        """The indices of policies, by prefix and member."""
        self._found: dict[str, tuple[Policy, ...]] = {}
        """The policies that name a subject, by subject."""

    @classmethod
    async def of(cls, policies: tuple[Policy, ...]) -> Members:
        made = cls(policies)
        holders: dict[bytes, int] = {}
        slices = Slices()
        for index, policy in enumerate(policies):
            for member in policy.members:
                prefix, star, _ = _whole(member).partition(EVERY)
                if star:
                    those = made._by_prefix.setdefault(prefix, {})
                    those.setdefault(member, []).append(index)
                else:
                    made._exact.setdefault(_whole(member), []).append(index)
                if slices.over:
                    await slices.rest()
            digest = sha256("\0".join((policy.role, *policy.resources)).encode()).digest()
            fresh = digest not in holders
            holder = holders.setdefault(digest, 1 << len(holders))
            made._gives[policy.name] = _PolicyGrant(
                holder, digest, ROLES.get(policy.role, _NOTHING)
            )
            if not fresh:
                continue  # another policy says the same
            for text in policy.resources:
                if is_resource(text):
                    made.granted.add(holder, *parse_resource(text))
                if slices.over:
                    await slices.rest()
        return made

    async def naming(self, subject: str) -> tuple[Policy, ...]:
        """Return the policies of which the subject is a member, in their order."""
        known = self._found.get(subject)
        if known is not None:
            return known
        whole = _whole(subject)
        found = set(self._exact.get(whole, ()))
        slices = Slices()
        for length in range(len(whole) + 1):
            for member, indices in self._by_prefix.get(whole[:length], _NOBODY).items():
                if not found.issuperset(indices) and is_member(member, subject):
                    found.update(indices)
                if slices.over:
                    await slices.rest()
        if len(self._found) >= MAX_SUBJECTS:
            self._found.clear()
        naming = self._found[subject] = tuple(self.policies[index] for index in sorted(found))
        return naming

    async def grants_to(self, subject: str) -> FromPolicies:
        """Return the grants to a subject."""
        gives = {self._gives[policy.name] for policy in await self.naming(subject)}
        holders: dict[str, int] = {}
        for holder, _, permissions in gives:
            for permission in permissions:
                holders[permission.value] = holders.get(permission.value, 0) | holder
        digest = sha256(b"".join(sorted(each.digest for each in gives))).digest()
        return FromPolicies(digest, frozenset(holders), self.granted, holders)


_NOTHING: frozenset[Permission] = frozenset()
_NOBODY: Mapping[str, list[int]] = {}


@dataclass(frozen=True, slots=True)
class _OfTenant:
    tenant_id: bytes
    members: Members


class PolicyCache:
    """The policies of tenants, in memory.

    `on_changes` is a listener of the change feed, added before the first question is asked.
    """

    def __init__(self, policies: PolicyRepository) -> None:
        async def read(tenant_id: bytes) -> _OfTenant:
            return _OfTenant(tenant_id, await Members.of(await policies.of_tenant(tenant_id)))

        self._known = Known[bytes, _OfTenant](read)

    async def of(self, tenant_id: bytes, subject: str) -> FromPolicies:
        """Return the grants of the tenant's policies to a subject. Raises VerifierUnavailable."""
        return await (await self._members(tenant_id)).grants_to(subject)

    async def naming(self, tenant_id: bytes, subject: str) -> tuple[Policy, ...]:
        """Return the policies of which the subject is a member. Raises VerifierUnavailable."""
        return await (await self._members(tenant_id)).naming(subject)

    async def _members(self, tenant_id: bytes) -> Members:
        found = await self._known.get(tenant_id)
        assert found is not None, "a tenant without policies has none"
        return found.members

    async def on_changes(self, changes: Sequence[Change]) -> None:
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._known.forget(lambda _: True)
            return
        about = (ChangeKind.POLICY, ChangeKind.TENANT)
        tenants = {change.tenant_id for change in changes if change.kind in about}
        if tenants:
            self._known.forget(lambda known: known.tenant_id in tenants)
