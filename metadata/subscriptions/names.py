"""The subscriptions of a tenant whose names begin with a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata.database import Database
from metadata.models import SubscriptionRow


class NamedSubscription(NamedTuple):
    """A subscription, and no more of it than its place."""

    name: str
    uid: bytes
    topic_uid: bytes
    state: str


class SubscriptionNames:
    """Reads only; raises MetadataUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def beginning_with(
        self, tenant_id: bytes, prefixes: Sequence[str], limit: int
    ) -> list[NamedSubscription]:
        """Return subscriptions by name, at most `limit`; an empty prefix is that of all."""
        statement = (
            select(
                SubscriptionRow.name,
                SubscriptionRow.uid,
                SubscriptionRow.topic_uid,
                SubscriptionRow.state,
            )
            .where(
                SubscriptionRow.tenant_id == tenant_id,
                or_(*(SubscriptionRow.name.startswith(one, autoescape=True) for one in prefixes)),
            )
            .order_by(SubscriptionRow.name)
            .limit(limit)
        )

        async def work(session: AsyncSession) -> list[NamedSubscription]:
            return [NamedSubscription(*row) for row in await session.execute(statement)]

        return await self._database.of(tenant_id).read(work) if prefixes else []
