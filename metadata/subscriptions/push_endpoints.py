"""The state of a push subscription's endpoint: whether it gets messages, for all forwarders.

    none, unverified   it has not answered a challenge; the reason says how the last one ended
    enabled            it gets messages
    disabled           it failed for too long, or said that it is gone; until somebody enables it

A transition is told to the change feed as a change of the subscription, and to the tenant's audit:
a row for each transition, committed with it, however many processes found out at once (each
control-plane transaction sees the result of the one before it). The time at which an endpoint began
to fail is not told: only forwarders that push to it look at that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row, TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Connection, Database
from metadata.ids import new_uid
from metadata.models.base import Uid
from metadata.tenancy.audit import AuditEntry, AuditFilter, AuditLog
from metadata.types import Subscription
from openapi.push import State

Turn = Literal["verified", "unverified", "disabled", "enabled"]
ACTOR = "platform"
MAX_REASON_CHARS = 1024
MAX_TRANSITIONS = 500

_COLUMNS = """
    tenant_id, subscription_uid, state, reason, failing_since, verified_url, verified_at, changed_at
"""
_LOAD = (
    "SELECT"
    + _COLUMNS
    + """
    FROM push_endpoints JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant, subscription)
    ON tenant_id = wanted.tenant AND subscription_uid = wanted.subscription
    """
)
_GET = "SELECT" + _COLUMNS + "FROM push_endpoints WHERE tenant_id = $1 AND subscription_uid = $2"
# Store nothing for a subscription that is gone meanwhile.
_FAILING = """
INSERT INTO push_endpoints (tenant_id, subscription_uid, state, failing_since)
SELECT tenant_id, uid, 'enabled', now() - make_interval(secs => failing.seconds)
FROM subscriptions
JOIN unnest($1::uuid[], $2::uuid[], $3::float8[]) AS failing (tenant, subscription, seconds)
    ON tenant_id = failing.tenant AND uid = failing.subscription
FOR KEY SHARE OF subscriptions
ON CONFLICT (tenant_id, subscription_uid) DO UPDATE
    SET failing_since = EXCLUDED.failing_since WHERE push_endpoints.failing_since IS NULL
"""
_WELL = """
UPDATE push_endpoints SET failing_since = NULL
FROM unnest($1::uuid[], $2::uuid[]) AS well (tenant, subscription)
WHERE tenant_id = well.tenant AND subscription_uid = well.subscription
    AND failing_since IS NOT NULL
"""


def _of_one(statement: str) -> TextClause:
    return text(statement).bindparams(bindparam("tenant", type_=Uid), bindparam("uid", type_=Uid))


_BEFORE = _of_one(
    "SELECT state, verified_url FROM push_endpoints"
    " WHERE tenant_id = :tenant AND subscription_uid = :uid"
)
_VERIFIED = _of_one(
    """
    INSERT INTO push_endpoints (tenant_id, subscription_uid, state, verified_url, verified_at)
    VALUES (:tenant, :uid, 'enabled', :url, now())
    ON CONFLICT (tenant_id, subscription_uid) DO UPDATE SET
        state = CASE push_endpoints.state WHEN 'disabled' THEN 'disabled' ELSE 'enabled' END,
        reason = CASE push_endpoints.state WHEN 'disabled' THEN push_endpoints.reason END,
        verified_url = EXCLUDED.verified_url, verified_at = now(), changed_at = now()
    RETURNING state
    """
)
_NOT_VERIFIED = _of_one(
    """
    INSERT INTO push_endpoints (tenant_id, subscription_uid, state, reason)
    VALUES (:tenant, :uid, 'unverified', :reason)
    ON CONFLICT (tenant_id, subscription_uid) DO UPDATE SET
        state = 'unverified', reason = EXCLUDED.reason, verified_url = NULL, changed_at = now()
        WHERE push_endpoints.state <> 'disabled'
            AND (push_endpoints.state, push_endpoints.reason) IS DISTINCT FROM
                ('unverified', EXCLUDED.reason)
    RETURNING state
    """
)
_DISABLE = _of_one(
    """
    INSERT INTO push_endpoints (tenant_id, subscription_uid, state, reason)
    SELECT CAST(:tenant AS uuid), CAST(:uid AS uuid), 'disabled', CAST(:reason AS text)
    WHERE CAST(:failing_for_s AS float8) IS NULL
        OR EXISTS (
            SELECT FROM push_endpoints WHERE tenant_id = :tenant AND subscription_uid = :uid
                AND failing_since <= now() - make_interval(secs => CAST(:failing_for_s AS float8))
        )
    ON CONFLICT (tenant_id, subscription_uid) DO UPDATE SET
        state = 'disabled', reason = EXCLUDED.reason, changed_at = now()
        WHERE push_endpoints.state <> 'disabled'
    RETURNING state
    """
)
_ENABLE = _of_one(
    """
    UPDATE push_endpoints SET
        state = CASE WHEN verified_url IS NULL THEN 'unverified' ELSE 'enabled' END,
        reason = NULL, failing_since = NULL, changed_at = now()
    WHERE tenant_id = :tenant AND subscription_uid = :uid
        AND (state = 'disabled' OR failing_since IS NOT NULL)
    RETURNING state
    """
)


@dataclass(frozen=True, slots=True)
class PushEndpoint:
    """A row of `push_endpoints`."""

    tenant_id: bytes
    subscription_uid: bytes
    state: State
    reason: str | None
    failing_since: datetime | None
    """The time since which there are only failures."""
    verified_url: str | None
    verified_at: datetime | None
    changed_at: datetime


class PushEndpointRepository:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, subscriptions: Sequence[Subscription]) -> dict[bytes, PushEndpoint]:
        """Return endpoints by subscription, of any tenants, without those that have no row."""
        tenants, uids = _columns(subscriptions)

        async def work(connection: Connection) -> dict[bytes, PushEndpoint]:
            rows = await connection.fetch(_LOAD, tenants, uids)
            return {row["subscription_uid"]: PushEndpoint(*row) for row in rows}

        return await self._database.statement(work, writes=False)

    async def get(self, tenant_id: bytes, subscription_uid: bytes) -> PushEndpoint | None:
        async def work(connection: Connection) -> PushEndpoint | None:
            row = await connection.fetchrow(_GET, tenant_id, subscription_uid)
            return None if row is None else PushEndpoint(*row)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def failing(self, failing_s: Sequence[tuple[Subscription, float]]) -> None:
        """Note endpoints that have only failed for some seconds; a longer known failure stays."""
        tenants, uids = _columns([subscription for subscription, _ in failing_s])
        seconds = [for_s for _, for_s in failing_s]

        async def work(connection: Connection) -> None:
            await connection.execute(_FAILING, tenants, uids, seconds)

        await self._database.statement(work, writes=True)

    async def well(self, subscriptions: Sequence[Subscription]) -> None:
        """Note that the endpoints take messages."""
        tenants, uids = _columns(subscriptions)

        async def work(connection: Connection) -> None:
            await connection.execute(_WELL, tenants, uids)

        await self._database.statement(work, writes=True)

    async def verified(self, subscription: Subscription, url: str) -> bool:
        """Note that the url answered the challenge; a disabled endpoint stays so.

        This is always a change.
        """
        return await self._change(subscription, "verified", _VERIFIED, url=url)

    async def not_verified(self, subscription: Subscription, reason: str) -> bool:
        """Note that it did not answer, and gets nothing until it does; return whether that
        is new.
        """
        return await self._change(
            subscription, "unverified", _NOT_VERIFIED, reason=reason[:MAX_REASON_CHARS]
        )

    async def disable(
        self, subscription: Subscription, reason: str, *, failing_for_s: float | None = None
    ) -> bool:
        """Disable the endpoint; return whether it was enabled before.

        With `failing_for_s`, do so only if all forwarders have seen nothing but failures for that
        time.
        """
        return await self._change(
            subscription,
            "disabled",
            _DISABLE,
            reason=reason[:MAX_REASON_CHARS],
            failing_for_s=failing_for_s,
        )

    async def enable(self, subscription: Subscription) -> bool:
        """Enable the endpoint; return whether it was disabled, or failing."""
        return await self._change(subscription, "enabled", _ENABLE)

    async def transitions(
        self, subscription: Subscription, since: datetime
    ) -> Sequence[AuditEntry]:
        """Return its transitions in the audit, oldest first; at most `MAX_TRANSITIONS`."""
        wanted = AuditFilter(actor=ACTOR, resource=_resource(subscription), start=since)
        log = AuditLog(self._database)
        page = await log.page(subscription.tenant_id, wanted, page_size=MAX_TRANSITIONS)
        uid = subscription.uid.hex()
        mine = [one for one in page.items if one.detail.get("subscription") == uid]
        return mine[::-1]

    async def _change(
        self, subscription: Subscription, turn: Turn, statement: TextClause, **values: Any
    ) -> bool:
        async def work(session: AsyncSession) -> bool:
            await changes.wait_turn(session, subscription.tenant_id)
            one = {"tenant": subscription.tenant_id, "uid": subscription.uid}
            before = (await session.execute(_BEFORE, one)).first()
            found = (await session.execute(statement, one | values)).first()
            if found is None:
                return False
            if _turned(turn, before, values):
                reason = values.get("reason")
                AuditLog.add(session, [_audited(subscription, turn, found.state, reason)])
            await changes.tell(session, changes.of_subscription(subscription))
            return True

        return await self._database.of(subscription.tenant_id).write(work)


def _columns(subscriptions: Sequence[Subscription]) -> tuple[list[bytes], list[bytes]]:
    return [one.tenant_id for one in subscriptions], [one.uid for one in subscriptions]


def _turned(turn: Turn, before: Row[Any] | None, values: Mapping[str, Any]) -> bool:
    """Return whether that is a transition, and not the same once more."""
    if before is None:
        return True
    if turn == "verified":
        return bool(before.state == "unverified" or before.verified_url != values["url"])
    if turn == "enabled":
        return bool(before.state == "disabled")
    return bool(before.state != turn)


def _resource(subscription: Subscription) -> str:
    return f"subscriptions/{subscription.name}"


def _audited(
    subscription: Subscription, turn: Turn, state: State, reason: str | None
) -> AuditEntry:
    detail = {"subscription": subscription.uid.hex(), "state": state}
    return AuditEntry(
        tenant_id=subscription.tenant_id,
        id=new_uid(),
        actor=ACTOR,
        action=f"subscriptions.push.{turn}",
        resource=_resource(subscription),
        status=200,
        request_id="",
        detail=detail if reason is None else detail | {"reason": reason},
    )
