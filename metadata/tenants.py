"""Tenants."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.errors import NotFound
from metadata.models import TenantRow
from metadata.types import ChangeKind, Tenant


class TenantRepository:
    """Only what one development tenant needs as yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure(self, tenant_id: bytes, name: str) -> Tenant:
        """The tenant of that id, made under that name if there is none."""

        async def work(session: AsyncSession) -> Tenant:
            row = await session.get(TenantRow, tenant_id)
            if row is None:
                version = await changes.next_version(session)
                row = await session.get(TenantRow, tenant_id)
                if row is None:
                    row = TenantRow(tenant_id=tenant_id, name=name, version=version)
                    session.add(row)
                    await session.flush()
                    await session.refresh(row)
                await changes.record(
                    session, version, ChangeKind.TENANT, tenant_id, tenant_id, name
                )
            return _tenant(row)

        return await self._database.write(work)

    async def get(self, name: str) -> Tenant:
        """NotFound."""

        async def work(session: AsyncSession) -> Tenant:
            row = await session.scalar(select(TenantRow).where(TenantRow.name == name))
            if row is None:
                raise NotFound("tenant", name)
            return _tenant(row)

        return await self._database.read(work)


def _tenant(row: TenantRow) -> Tenant:
    return Tenant(tenant_id=row.tenant_id, name=row.name, created_at=row.created_at)
