"""Skip rules of a subscription, present and removed ones.

A rule that was removed keeps its row, with the actor and the time of the removal, for as long as
the subscription lives. Each change is one of the subscription, with a new version of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.models import SkipRuleRow, SubscriptionRow
from metadata.types import SkipRule

MAX_ACTIVE = 100
"""Rules of one subscription; a message is asked about each of them."""
MAX_LISTED = 1000


class SkipRuleRepository:
    """Addressed by the subscription's name; NotFound of the subscription from every call."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, tenant_id: bytes, name: str, *, expression: str, reason: str, created_by: str
    ) -> SkipRule:
        """Add a rule. Raises Conflict when there are as many as may be."""

        async def work(session: AsyncSession) -> SkipRule:
            await changes.wait_turn(session, tenant_id)
            subscription = await _named(session, tenant_id, name)
            active = await active_of(session, tenant_id, [subscription.uid])
            if len(active.get(subscription.uid, ())) >= MAX_ACTIVE:
                raise Conflict("subscription", name, f"has {MAX_ACTIVE} skip rules")
            row = SkipRuleRow(
                tenant_id=tenant_id,
                uid=new_uid(),
                subscription_uid=subscription.uid,
                expression=expression,
                reason=reason,
                created_by=created_by,
            )
            session.add(row)
            await session.flush()
            await session.refresh(row)
            await _turn(session, subscription)
            return _rule_of(row)

        return await self._database.of(tenant_id).write(work)

    async def remove(self, tenant_id: bytes, name: str, uid: bytes, *, removed_by: str) -> None:
        """Remove a rule; one that was removed before stays as it was.

        Raises NotFound, also for the rule.
        """

        async def work(session: AsyncSession) -> None:
            await changes.wait_turn(session, tenant_id)
            subscription = await _named(session, tenant_id, name)
            row = await session.get(SkipRuleRow, (tenant_id, uid))
            if row is None or row.subscription_uid != subscription.uid:
                raise NotFound("skip-rule", uid.hex())
            if row.removed_at is None:
                row.removed_by, row.removed_at = removed_by, func.now()
                await _turn(session, subscription)

        await self._database.of(tenant_id).write(work)

    async def of(self, tenant_id: bytes, name: str, *, removed: bool) -> tuple[SkipRule, ...]:
        """Return the active rules, or all, by creation time; the last `MAX_LISTED`."""

        async def work(session: AsyncSession) -> tuple[SkipRule, ...]:
            subscription = await _named(session, tenant_id, name)
            statement = (
                select(SkipRuleRow)
                .where(
                    SkipRuleRow.tenant_id == tenant_id,
                    SkipRuleRow.subscription_uid == subscription.uid,
                )
                .order_by(SkipRuleRow.created_at.desc(), SkipRuleRow.uid.desc())
                .limit(MAX_LISTED)
            )
            if not removed:
                statement = statement.where(SkipRuleRow.removed_at.is_(None))
            rows = await session.scalars(statement)
            return tuple(reversed([_rule_of(row) for row in rows]))

        return await self._database.of(tenant_id).read(work)


async def active_of(
    session: AsyncSession, tenant_id: bytes, subscription_uids: Iterable[bytes]
) -> dict[bytes, tuple[SkipRule, ...]]:
    """Return the rules that hold, by subscription uid; a subscription without any is left out."""
    rows = await session.scalars(
        select(SkipRuleRow)
        .where(
            SkipRuleRow.tenant_id == tenant_id,
            SkipRuleRow.subscription_uid.in_(list(subscription_uids)),
            SkipRuleRow.removed_at.is_(None),
        )
        .order_by(SkipRuleRow.created_at, SkipRuleRow.uid)
    )
    found: dict[bytes, tuple[SkipRule, ...]] = {}
    for row in rows:
        uid = row.subscription_uid
        found[uid] = (*found.get(uid, ()), _rule_of(row))
    return found


async def _named(session: AsyncSession, tenant_id: bytes, name: str) -> SubscriptionRow:
    row = await session.scalar(
        select(SubscriptionRow).where(
            SubscriptionRow.tenant_id == tenant_id, SubscriptionRow.name == name
        )
    )
    if row is None:
        raise NotFound("subscription", name)
    return row


async def _turn(session: AsyncSession, row: SubscriptionRow) -> None:
    row.updated_at = func.now()
    row.version = await changes.tell(session, changes.of_subscription(row))


def _rule_of(row: SkipRuleRow) -> SkipRule:
    return SkipRule(
        uid=row.uid,
        expression=row.expression,
        reason=row.reason,
        created_by=row.created_by,
        created_at=row.created_at,
        removed_by=row.removed_by,
        removed_at=row.removed_at,
    )
