"""Limits on the number of objects of each kind, held in the transaction that makes one.

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

TOPICS = "topics"
SUBSCRIPTIONS = "subscriptions"
STORED_BYTES = "stored_bytes"
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
"""Objects of each kind that a tenant may have, where the platform's settings say nothing else. All
members of all policies are matched when a token is seen first, so those are counted, too. A tenant
that has more than that already keeps it, and makes no more."""
BUILT_IN_LIMITS: Defaults = {TOPICS: 1_000, SUBSCRIPTIONS: 10_000, STORED_BYTES: 5 * 2**30}
"""Limits of a tenant that neither the operator nor the settings limit otherwise. A tenant that was
there before these limits is exempt (`TenantRow.built_in_limits`): its publishes go on."""


async def require_room(
    session: AsyncSession,
    tenant_id: bytes,
    quota: str,
    count: Select[Any],
    defaults: Defaults,
) -> None:
    """Require room for one more of the objects that `count` counts.

    Raises QuotaExceeded, and NotFound of a tenant that is being deleted.

    Call it after the transaction took its version.
    """
    tenant = await session.get(TenantRow, tenant_id)
    require_alive(tenant_id, None if tenant is None else tenant.state)
    assert tenant is not None
    own = await session.get(QuotaRow, tenant_id)
    limits = None if own is None else own.limits
    limit = limit_in_force(quota, defaults, limits, exempt=not tenant.built_in_limits)
    if limit:
        require_below(quota, limit, int(await session.scalar(count) or 0))


def require_alive(tenant_id: bytes, state: str | None) -> None:
    """Raise NotFound of a tenant that is being deleted, or that has no row and so no state."""
    if state in (None, "deleting"):
        raise NotFound("tenant", tenant_id.hex())


def require_below(quota: str, limit: float, used: int) -> None:
    """Raise QuotaExceeded if there is no room for one more beside the `used` ones."""
    if used >= limit:
        raise QuotaExceeded(quota, int(limit), used)


def limit_in_force(
    quota: str, defaults: Defaults, own: Mapping[str, float | None] | None, *, exempt: bool
) -> float:
    """Return a tenant's limit, of its `own` ones if it has any; 0 is no limit."""
    limit = limit_of(quota, defaults, exempt=exempt)
    return limit if own is None else own.get(quota, limit) or 0


def limit_of(quota: str, defaults: Defaults, *, exempt: bool = False) -> float:
    """Return the platform's limit of a tenant without its own; 0 is no limit.

    An `exempt` tenant has the limits that the settings name, and no built-in one.
    """
    if quota in BUILT_IN_LIMITS:
        return defaults.get(quota, 0 if exempt else BUILT_IN_LIMITS[quota])
    return defaults.get(quota, OBJECT_LIMITS.get(quota, 0))
