"""How many objects of each kind a tenant may have, held to in the transaction that makes one.

Transactions that take a version come one after the other, so two that make the last one that there
is room for do not both find the room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.errors import NotFound, QuotaExceeded
from metadata.models import QuotaRow, TenantRow
from metadata.types import TenantState

TOPICS = "topics"
SUBSCRIPTIONS = "subscriptions"
Defaults = Mapping[str, float]
"""The platform's limits by name, for tenants without their own; 0 or absent: none."""
NO_LIMITS: Defaults = {}
POLICIES = "policies"
POLICY_MEMBERS = "policy_members"
CLIENTS = "clients"
KEYS = "keys"
ISSUERS = "issuers"
SCHEMAS = "schemas"
SCHEDULES = "schedules"
OBJECT_LIMITS: Defaults = {
    POLICIES: 500,
    POLICY_MEMBERS: 5_000,
    CLIENTS: 1_000,
    KEYS: 1_000,
    ISSUERS: 50,
    SCHEMAS: 1_000,
    SCHEDULES: 1_000,
}
"""What a tenant may have of each kind, where the platform's settings say nothing else. All members
of all policies are matched when a token is seen first, so those are counted, too. Who has more than
that already keeps it, and makes no more."""


async def require_room(
    session: AsyncSession,
    tenant_id: bytes,
    quota: str,
    count: Select[Any],
    defaults: Defaults,
) -> None:
    """For one more of what `count` counts. QuotaExceeded; NotFound of a tenant that is going.

    Call it after the transaction took its version.
    """
    tenant = await session.get(TenantRow, tenant_id)
    if tenant is None or tenant.state == TenantState.DELETING.value:
        raise NotFound("tenant", tenant_id.hex())
    own = await session.get(QuotaRow, tenant_id)
    limit = limit_of(quota, defaults)
    if own is not None:
        limit = own.limits.get(quota, limit) or 0
    if not limit:
        return
    used = int(await session.scalar(count) or 0)
    if used >= limit:
        raise QuotaExceeded(quota, int(limit), used)


def limit_of(quota: str, defaults: Defaults) -> float:
    """The platform's; 0: none."""
    return defaults.get(quota, OBJECT_LIMITS.get(quota, 0))
