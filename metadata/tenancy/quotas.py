"""What each tenant may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.models import QuotaRow, TenantRow
from metadata.types import ChangeKind


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """A tenant's limits by name: 0 or None is no limit, what is not named has the platform's
    default. `weight` is its share where tenants compete. Version 0: nothing was ever set."""

    tenant_id: bytes
    limits: Mapping[str, float | None] = field(default_factory=dict)
    weight: float = 1.0
    version: int = 0
    updated_at: datetime | None = None


class QuotaRepository:
    """One row for each tenant that has limits of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: bytes) -> TenantQuota:
        """At version 0 where none was set."""

        async def work(session: AsyncSession) -> TenantQuota:
            row = await session.get(QuotaRow, tenant_id)
            return TenantQuota(tenant_id) if row is None else _quota(row)

        return await self._database.of(tenant_id).read(work)

    async def all(self) -> tuple[TenantQuota, ...]:
        """Of all tenants that have limits of their own."""

        async def work(session: AsyncSession) -> tuple[TenantQuota, ...]:
            rows = await session.scalars(select(QuotaRow).order_by(QuotaRow.tenant_id))
            return tuple(_quota(row) for row in rows)

        return await self._database.platform.read(work)

    async def put(
        self,
        tenant_id: bytes,
        limits: Mapping[str, float | None],
        weight: float,
        *,
        if_version: int | None = None,
    ) -> TenantQuota:
        """All of them at once; without a difference there is no new version. NotFound of the
        tenant; Conflict when `if_version` is another."""

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
                return _quota(row)
            row.limits, row.weight = dict(limits), weight
            row.updated_at = func.now()
            await session.flush()
            await session.refresh(row)
            told = changes.Told(ChangeKind.QUOTA, tenant_id, tenant_id, tenant.name)
            row.version = await changes.tell(session, told)
            return _quota(row)

        return await self._database.platform.write(work)


def _quota(row: QuotaRow) -> TenantQuota:
    return TenantQuota(row.tenant_id, dict(row.limits), row.weight, row.version, row.updated_at)
