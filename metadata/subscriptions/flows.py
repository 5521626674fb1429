"""Keeps the flow that a consumer of a subscription reported, and the end of its time.

A row whose time is over means nothing; it stays until the next one, or its subscription's end. Each
change is one of the change feed, whose version the row has: of two the higher is the later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.models.base import Uid
from metadata.types import ChangeKind, Subscription

_COLUMNS = """
    tenant_id, subscription_uid, messages_per_second, max_outstanding, reason, said_by, until,
    extract(epoch FROM until - clock_timestamp())::float8 AS left_s, version
"""


def _of_one(statement: str) -> TextClause:
    return text(statement).bindparams(bindparam("tenant", type_=Uid), bindparam("uid", type_=Uid))


# Store nothing for a subscription that is gone meanwhile.
_PUT = _of_one(
    """
    INSERT INTO subscription_flows AS known (
        tenant_id, subscription_uid, messages_per_second, max_outstanding, reason, said_by, until,
        version
    )
    SELECT tenant_id, uid, CAST(:rate AS float8), CAST(:outstanding AS integer),
        CAST(:reason AS text), CAST(:said_by AS text),
        clock_timestamp() + make_interval(secs => :ttl_s), 0
    FROM subscriptions WHERE tenant_id = :tenant AND uid = :uid
    FOR KEY SHARE
    ON CONFLICT (tenant_id, subscription_uid) DO UPDATE SET
        messages_per_second = EXCLUDED.messages_per_second,
        max_outstanding = EXCLUDED.max_outstanding, reason = EXCLUDED.reason,
        said_by = EXCLUDED.said_by, until = EXCLUDED.until
    RETURNING"""
    + _COLUMNS
)
_END = _of_one(
    """
    UPDATE subscription_flows SET until = clock_timestamp()
    WHERE tenant_id = :tenant AND subscription_uid = :uid AND until > clock_timestamp()
    RETURNING"""
    + _COLUMNS
)
_TOLD = _of_one(
    """
    UPDATE subscription_flows SET version = :version
    WHERE tenant_id = :tenant AND subscription_uid = :uid
    """
)
_GET = _of_one(
    "SELECT"
    + _COLUMNS
    + """
    FROM subscription_flows
    WHERE tenant_id = :tenant AND subscription_uid = :uid AND until > clock_timestamp()
    """
)
_ALL = text("SELECT" + _COLUMNS + "FROM subscription_flows WHERE until > clock_timestamp()")
_LOAD = text(
    "SELECT"
    + _COLUMNS
    + """
    FROM subscription_flows WHERE (tenant_id, subscription_uid) IN (
        SELECT * FROM unnest(:tenants, :uids)
    )
    """
).bindparams(bindparam("tenants", type_=ARRAY(Uid)), bindparam("uids", type_=ARRAY(Uid)))


@dataclass(frozen=True, slots=True)
class Flow:
    """A row of `subscription_flows`."""

    tenant_id: bytes
    subscription_uid: bytes
    messages_per_second: float | None
    """0: none. None: as many as the subscription's own limit lets go."""
    max_outstanding: int | None
    reason: str
    said_by: str
    until: datetime
    left_s: float
    """Seconds left when it was read; it is over at 0 and below."""
    version: int


class SubscriptionFlowRepository:
    """Reads and writes `subscription_flows`; the row of a subscription goes with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        subscription: Subscription,
        *,
        messages_per_second: float | None,
        max_outstanding: int | None,
        ttl_s: float,
        reason: str,
        said_by: str,
    ) -> Flow | None:
        """Replace the flow; return None where the subscription is gone."""
        values = {
            "rate": messages_per_second,
            "outstanding": max_outstanding,
            "ttl_s": ttl_s,
            "reason": reason,
            "said_by": said_by,
        }
        return await self._change(subscription, _PUT, **values)

    async def end(self, subscription: Subscription) -> Flow | None:
        """End the flow; return None where none held."""
        return await self._change(subscription, _END)

    async def get(self, tenant_id: bytes, subscription_uid: bytes) -> Flow | None:
        """Return the flow that holds now."""

        async def work(session: AsyncSession) -> Flow | None:
            named = {"tenant": tenant_id, "uid": subscription_uid}
            return _flow((await session.execute(_GET, named)).first())

        return await self._database.of(tenant_id).read(work)

    async def all(self) -> list[Flow]:
        """Return the flows of all tenants that hold now."""

        async def work(session: AsyncSession) -> list[Flow]:
            return _flows(await session.execute(_ALL))

        return await self._database.platform.read(work)

    async def load(self, of: Sequence[tuple[bytes, bytes]]) -> list[Flow]:
        """Return the flows of these tenants and subscriptions, also those that are over."""
        named = {"tenants": [one for one, _ in of], "uids": [uid for _, uid in of]}

        async def work(session: AsyncSession) -> list[Flow]:
            return _flows(await session.execute(_LOAD, named))

        return await self._database.platform.read(work)

    async def _change(
        self, subscription: Subscription, statement: TextClause, **values: Any
    ) -> Flow | None:
        async def work(session: AsyncSession) -> Flow | None:
            await changes.wait_turn(session, subscription.tenant_id)
            named = {"tenant": subscription.tenant_id, "uid": subscription.uid}
            flow = _flow((await session.execute(statement, {**named, **values})).first())
            if flow is None:
                return None
            told = changes.of_subscription(subscription, ChangeKind.FLOW)
            version = await changes.tell(session, told)
            await session.execute(_TOLD, {**named, "version": version})
            return replace(flow, version=version)

        return await self._database.of(subscription.tenant_id).write(work)


def _flow(row: Row[Any] | None) -> Flow | None:
    return None if row is None else _of(row)


def _flows(rows: Iterable[Row[Any]]) -> list[Flow]:
    return [_of(row) for row in rows]


def _of(row: Row[Any]) -> Flow:
    values: Sequence[Any] = row
    return Flow(values[0].bytes, values[1].bytes, *values[2:])
