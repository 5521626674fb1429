"""Owners of a tenant: those that could give everybody else their roles.

An owner is a client that can sign in, or a subject of an issuer, whom a policy names with the role
`owner` on everything; or a key with the scope `administer`. A change that would leave a tenant
without one is undone, unless it is forced or there was none before: control-plane transactions come
one after the other, so two changes that are harmless one by one cannot do it together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from edge.caller import fits
from metadata.errors import LastOwner
from metadata.models import ApiKeyRow, ClientRow, IssuerRow, PolicyRow
from metadata.tenancy.credentials import from_json

OWNER = "owner"
EVERYTHING = "*"
_ACTIVE = "active"
_ADMINISTERS = frozenset({"administer", "administer:*"})
Guard = Callable[[AsyncSession], AbstractAsyncContextManager[None]]
"""Stands around what a transaction changes."""


def keep_owner(tenant_id: bytes) -> Guard:
    """Raises LastOwner at the end of what would leave the tenant without an owner."""

    @asynccontextmanager
    async def guard(session: AsyncSession) -> AsyncIterator[None]:
        before = await has_owner(session, tenant_id)
        yield
        await session.flush()
        if before and not await has_owner(session, tenant_id):
            raise LastOwner

    return guard


async def has_owner(session: AsyncSession, tenant_id: bytes) -> bool:
    now = datetime.now(UTC)
    return await _key_administers(session, tenant_id, now) or await _member_owns(
        session, tenant_id, now
    )


async def _member_owns(session: AsyncSession, tenant_id: bytes, now: datetime) -> bool:
    policies = await session.scalars(
        select(PolicyRow).where(PolicyRow.tenant_id == tenant_id, PolicyRow.role == OWNER)
    )
    members = [
        member for policy in policies if EVERYTHING in policy.resources for member in policy.members
    ]
    if not members:
        return False
    clients = await session.scalars(
        select(ClientRow).where(ClientRow.tenant_id == tenant_id, ClientRow.state == _ACTIVE)
    )
    names = [client.name for client in clients if _any_live(client.secrets, now)]
    issuers = await session.scalars(select(IssuerRow.name).where(IssuerRow.tenant_id == tenant_id))
    return _names_one(members, "client:", names) or _names_one(members, "issuer:", list(issuers))


async def _key_administers(session: AsyncSession, tenant_id: bytes, now: datetime) -> bool:
    keys = await session.scalars(
        select(ApiKeyRow).where(ApiKeyRow.tenant_id == tenant_id, ApiKeyRow.state == _ACTIVE)
    )
    return any(
        not _ADMINISTERS.isdisjoint(key.scopes)
        and (key.expires_at is None or now < key.expires_at)
        and _any_live(key.secrets, now)
        for key in keys
    )


def _any_live(secrets: list[dict[str, Any]], now: datetime) -> bool:
    return any(secret.live(now) for secret in from_json(secrets))


def _names_one(members: Iterable[str], kind: str, names: Sequence[str]) -> bool:
    """Return whether a member fits a name; for an issuer, any subject of it counts."""
    for member in members:
        if member.startswith(kind):
            pattern = member.removeprefix(kind).partition("#")[0]
            if any(fits(pattern, name) for name in names):
                return True
    return False
