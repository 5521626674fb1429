"""How many topics and subscriptions a tenant may have, held to in the transaction that makes one.

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
    limit = defaults.get(quota, 0)
    if own is not None:
        limit = own.limits.get(quota, limit) or 0
    if not limit:
        return
    used = int(await session.scalar(count) or 0)
    if used >= limit:
        raise QuotaExceeded(quota, int(limit), used)
