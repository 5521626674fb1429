"""Tenants, policies and issuers in memory, as the repositories give them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from auth.client_directory import ClientDirectory
from metadata.errors import MetadataUnavailable, NotFound
from metadata.tenancy.policies import Policy
from metadata.types import Change, ChangeKind, Tenant

ACME, OTHER = b"a" * 16, b"o" * 16
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def change(kind: ChangeKind, tenant_id: bytes = ACME, uid: bytes = b"u" * 16) -> Change:
    return Change(1, kind, tenant_id, uid, "name")


def policy(role: str, members: list[str], resources: list[str], name: str = "p") -> Policy:
    return Policy(ACME, b"p" * 16, name, role, tuple(members), tuple(resources), {}, 1, WHEN, WHEN)


class Tenants:
    """A `TenantRepository` in memory, by id."""

    def __init__(self) -> None:
        self.states = {ACME: "active", OTHER: "active"}
        self.down = False

    async def get_by_id(self, tenant_id: bytes) -> Tenant:
        if self.down:
            raise MetadataUnavailable("down")
        if tenant_id not in self.states:
            raise NotFound("tenant", tenant_id.hex())
        state = self.states[tenant_id]
        return Tenant(tenant_id, "acme", "", state, {}, (), 1, WHEN, WHEN)

    async def by_client_id(self, client_id: str) -> None:
        return None


def directory_of(tenants: Tenants) -> ClientDirectory:
    return ClientDirectory(cast(Any, tenants), cast(Any, tenants))


class Policies:
    """A `PolicyRepository` in memory."""

    def __init__(self, *policies: Policy) -> None:
        self.policies = policies
        self.reads = 0

    async def of_tenant(self, tenant_id: bytes) -> tuple[Policy, ...]:
        self.reads += 1
        return tuple(each for each in self.policies if each.tenant_id == tenant_id)
