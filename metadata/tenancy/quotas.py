"""Limits that operators set for single tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.counts import Defaults, limit_of
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.models import QuotaRow, TenantRow
from metadata.types import ChangeKind
from openapi.tenants import DEFAULT_WEIGHT


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """A tenant's limits by name: 0 or None is no limit, a limit without a name here has the
    platform's default. `weight` is its share where tenants compete. Version 0: nothing was ever
    set. An `exempt` tenant is older than the built-in limits (`metadata.counts`)."""

    tenant_id: bytes
    limits: Mapping[str, float | None] = field(default_factory=dict)
    weight: float = DEFAULT_WEIGHT
    version: int = 0
    updated_at: datetime | None = None
    exempt: bool = False


class TenantLimit:
    """One limit of every tenant, for callers that enforce it by themselves."""

    def __init__(self, quota: str, defaults: Defaults) -> None:
        self._quota = quota
        self._default = limit_of(quota, defaults)
        self._exempt = limit_of(quota, defaults, exempt=True)
        self._own: dict[bytes, float] = {}

    def follow(self, quotas: Sequence[TenantQuota], *, all_of_them: bool = False) -> None:
        """Use these limits from now on."""
        if all_of_them:
            self._own.clear()
        for one in quotas:
            self._own.pop(one.tenant_id, None)
            if self._quota in one.limits:
                self._own[one.tenant_id] = one.limits[self._quota] or 0.0
            elif one.exempt:
                self._own[one.tenant_id] = self._exempt

    def of(self, tenant_id: bytes) -> float:
        """Return a tenant's limit; 0 for none."""
        return self._own.get(tenant_id, self._default)

    @property
    def any(self) -> bool:
        """Whether some tenant has a limit."""
        return bool(self._default) or any(self._own.values())


class QuotaRepository:
    """One row for each tenant that has limits of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: bytes) -> TenantQuota:
        """Return a tenant's limits, at version 0 where none was set."""

        async def work(session: AsyncSession) -> TenantQuota:
            tenant = await session.get(TenantRow, tenant_id)
            row = await session.get(QuotaRow, tenant_id)
            exempt = tenant is not None and not tenant.built_in_limits
            return _quota(tenant_id, row, exempt=exempt)

        return await self._database.of(tenant_id).read(work)

    async def all(self) -> tuple[TenantQuota, ...]:
        """Return the limits of all tenants that have some of their own, or are exempt."""
        statement = (
            select(TenantRow.tenant_id, TenantRow.built_in_limits, QuotaRow)
            .outerjoin(QuotaRow, QuotaRow.tenant_id == TenantRow.tenant_id)
            .where(or_(QuotaRow.tenant_id.is_not(None), TenantRow.built_in_limits.is_(False)))
            .order_by(TenantRow.tenant_id)
        )

        async def work(session: AsyncSession) -> tuple[TenantQuota, ...]:
            rows = await session.execute(statement)
            return tuple(
                _quota(tenant_id, row, exempt=not limited) for tenant_id, limited, row in rows
            )

        return await self._database.platform.read(work)

    async def put(
        self,
        tenant_id: bytes,
        limits: Mapping[str, float | None],
        weight: float,
        *,
        if_version: int | None = None,
    ) -> TenantQuota:
        """Set all limits at once; equal ones make no new version. NotFound of the tenant; Conflict
        when `if_version` is another."""

        async def work(session: AsyncSession) -> TenantQuota:
            await changes.wait_turn(session, tenant_id)
            tenant = await session.get(TenantRow, tenant_id)
            if tenant is None:
                raise NotFound("tenant", tenant_id.hex())
            row = await session.get(QuotaRow, tenant_id)
            present = 0 if row is None else row.version
            if if_version is not None and present != if_version:
                raise Conflict("quota", tenant.name, f"is at version {present}")
            if row is None:
                row = QuotaRow(tenant_id=tenant_id, version=changes.UNTOLD)
                session.add(row)
            elif row.limits == dict(limits) and row.weight == weight:
                return _quota(tenant_id, row, exempt=not tenant.built_in_limits)
            row.limits, row.weight = dict(limits), weight
            row.updated_at = func.now()
            await session.flush()
            await session.refresh(row)
            told = changes.FeedChange(ChangeKind.QUOTA, tenant_id, tenant_id, tenant.name)
            row.version = await changes.tell(session, told)
            return _quota(tenant_id, row, exempt=not tenant.built_in_limits)

        return await self._database.platform.write(work)


def _quota(tenant_id: bytes, row: QuotaRow | None, *, exempt: bool) -> TenantQuota:
    if row is None:
        return TenantQuota(tenant_id, exempt=exempt)
    limits = dict(row.limits)
    return TenantQuota(tenant_id, limits, row.weight, row.version, row.updated_at, exempt)
