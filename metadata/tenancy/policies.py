"""Policies: which members have which role, on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from metadata.database import Database
from metadata.models import PolicyRow
from metadata.tenancy.named_rows import NamedRows, unguarded
from metadata.tenancy.owners import keep_owner
from metadata.types import ChangeKind, Page


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What a caller chooses."""

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


class PolicyRepository:
    """Names are unique per tenant."""

    def __init__(self, database: Database) -> None:
        self._rows = rows_of(database)

    async def of_tenant(self, tenant_id: bytes) -> tuple[Policy, ...]:
        """All of them, by name."""
        return await self._rows.of_tenant(tenant_id)

    async def get(self, tenant_id: bytes, name: str) -> Policy:
        """NotFound."""
        return await self._rows.get(tenant_id, name)

    async def create(self, tenant_id: bytes, spec: PolicySpec) -> Policy:
        """Conflict when the name is taken (`existing` is the policy that has it)."""
        return await self._rows.create(tenant_id, spec.name, columns_of(spec))

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        spec: PolicySpec,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> Policy:
        """NotFound; Conflict when `if_version` is another; LastOwner."""
        return await self._rows.update(
            tenant_id,
            name,
            lambda _: columns_of(spec),
            if_version=if_version,
            guard=unguarded if force else keep_owner(tenant_id),
        )

    async def delete(
        self,
        tenant_id: bytes,
        name: str,
        *,
        if_version: int | None = None,
        force: bool = False,
    ) -> Policy:
        """What it was. NotFound; Conflict when `if_version` is another; LastOwner."""
        guard = unguarded if force else keep_owner(tenant_id)
        return await self._rows.delete(tenant_id, name, if_version=if_version, guard=guard)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Policy]:
        """By name; BadPageToken."""
        return await self._rows.page(tenant_id, page_size, page_token)


def rows_of(database: Database) -> NamedRows[PolicyRow, Policy]:
    return NamedRows(database, PolicyRow, "policy", ChangeKind.POLICY, policy)


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
