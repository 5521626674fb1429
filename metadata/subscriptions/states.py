"""The state of a subscription: people set whether it delivers, and its owner follows."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.errors import NotFound
from metadata.models import SubscriptionRow
from openapi.subscriptions import State


class SubscriptionStateRepository:
    """No cursor changes with the state: leased messages stay leased, and may be acked."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, tenant_id: bytes, name: str, state: State, reason: str | None) -> int:
        """Set the state; return the version, which stays if nothing changes. Raises NotFound."""

        async def work(session: AsyncSession) -> int:
            row = await _named(session, tenant_id, name)
            if (row.state, row.state_reason) == (state, reason):
                return row.version
            await changes.wait_turn(session, tenant_id)
            session.expire(row)
            row = await _named(session, tenant_id, name)
            row.state, row.state_reason, row.updated_at = state, reason, func.now()
            row.version = await changes.tell(session, changes.of_subscription(row))
            return row.version

        return await self._database.of(tenant_id).write(work)


async def _named(session: AsyncSession, tenant_id: bytes, name: str) -> SubscriptionRow:
    row = await session.scalar(
        select(SubscriptionRow).where(
            SubscriptionRow.tenant_id == tenant_id, SubscriptionRow.name == name
        )
    )
    if row is None:
        raise NotFound("subscription", name)
    return row
