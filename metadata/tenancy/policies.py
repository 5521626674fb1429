"""Policies: which members have which role, on what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.counts import NO_LIMITS, POLICIES, POLICY_MEMBERS, Defaults, limit_of
from metadata.database import Database
from metadata.errors import QuotaExceeded
from metadata.models import PolicyRow
from metadata.tenancy.named_rows import NamedRows, unguarded
from metadata.tenancy.owners import Guard, keep_owner
from metadata.types import ChangeKind


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """The values that a caller chooses."""

    name: str
    role: str
    members: tuple[str, ...]
    resources: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as one transaction saw it. `version` is its ETag.

    `members` are `client:NAME`, `key:NAME` and `issuer:NAME#SUBJECT`, `resources` are `KIND/NAME`
    or `*` for everything; both with `*` as wildcard. `role` is one of five.
    """

    tenant_id: bytes
    uid: bytes
    name: str
    role: str
    members: tuple[str, ...]
    resources: tuple[str, ...]
    labels: Mapping[str, str]
    version: int
    created_at: datetime
    updated_at: datetime


class PolicyRepository(NamedRows[PolicyRow, Policy]):
    """Names are unique per tenant."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` as NamedRows does."""
        super().__init__(
            database,
            limits,
            row=PolicyRow,
            kind="policy",
            change=ChangeKind.POLICY,
            value=policy,
            quota=POLICIES,
        )

    async def create(self, tenant_id: bytes, spec: PolicySpec) -> Policy:
        """Create a policy. Conflict when the name is taken (`existing` has it). QuotaExceeded."""
        guard = self._room_for(tenant_id, spec.name, spec.members)
        return await self.create_row(tenant_id, spec.name, columns_of(spec), guard)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        spec: PolicySpec,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> Policy:
        """Change a policy.

        Raises NotFound; Conflict when `if_version` is another; LastOwner; QuotaExceeded.
        """
        owned = unguarded if force else keep_owner(tenant_id)
        room = self._room_for(tenant_id, name, spec.members)

        @asynccontextmanager
        async def guard(session: AsyncSession) -> AsyncIterator[None]:
            async with room(session), owned(session):
                yield

        return await self.update_row(
            tenant_id, name, lambda _: columns_of(spec), if_version=if_version, guard=guard
        )

    def _room_for(self, tenant_id: bytes, name: str, members: Sequence[str]) -> Guard:
        """Raises QuotaExceeded where the tenant's policies would have more members than they may,
        and more than now."""

        @asynccontextmanager
        async def guard(session: AsyncSession) -> AsyncIterator[None]:
            limit = limit_of(POLICY_MEMBERS, self.limits)
            if limit:
                size = func.jsonb_array_length(PolicyRow.members)
                rows = await session.execute(
                    select(PolicyRow.name, size).where(PolicyRow.tenant_id == tenant_id)
                )
                sizes = {each: count for each, count in rows}
                before, used = sizes.pop(name, 0), sum(sizes.values())
                if len(members) > before and used + len(members) > limit:
                    raise QuotaExceeded(POLICY_MEMBERS, int(limit), used + before)
            yield

        return guard


def columns_of(spec: PolicySpec) -> Mapping[str, Any]:
    return {
        "role": spec.role,
        "members": list(spec.members),
        "resources": list(spec.resources),
        "labels": dict(spec.labels),
    }


def policy(row: PolicyRow) -> Policy:
    return Policy(
        tenant_id=row.tenant_id,
        uid=row.uid,
        name=row.name,
        role=row.role,
        members=tuple(row.members),
        resources=tuple(row.resources),
        labels=dict(row.labels),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
