"""Requests to endpoints as they are listed: what was sent when, and what came back.

Bounded by number and by age for each subscription; written some at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from metadata.database import Connection, Database
from openapi.push import AttemptOutcome

KEPT = 1_000
"""The number of attempts that a subscription keeps: the newest."""
KEPT_DAYS = 7
PRUNE_AT_ONCE = 5_000
END = b"\xff" * 16
"""Above every id: a listing begins there, newest first."""

# Store nothing for subscriptions that are gone meanwhile.
_APPEND = """
INSERT INTO push_attempts (
    tenant_id, subscription_uid, id, at, message_id, partition, message_offset, attempt, status,
    outcome, latency_ms, response, detail
)
SELECT made.* FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::int[], $7::bigint[],
    $8::int[], $9::smallint[], $10::text[], $11::float8[], $12::bytea[], $13::text[]
) AS made (
    tenant_id, subscription_uid, id, at, message_id, partition, message_offset, attempt, status,
    outcome, latency_ms, response, detail
)
JOIN subscriptions ON subscriptions.tenant_id = made.tenant_id
    AND subscriptions.uid = made.subscription_uid
FOR KEY SHARE OF subscriptions
"""
_TRIM = """
DELETE FROM push_attempts USING (
    SELECT tenant, subscription, (
        SELECT id FROM push_attempts
        WHERE tenant_id = tenant AND subscription_uid = subscription
        ORDER BY id DESC OFFSET $3 LIMIT 1
    ) AS last
    FROM unnest($1::uuid[], $2::uuid[]) AS of (tenant, subscription)
) AS trimmed
WHERE tenant_id = tenant AND subscription_uid = subscription AND id <= last
"""
_PRUNE = """
DELETE FROM push_attempts WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM push_attempts WHERE at < now() - make_interval(days => $1) LIMIT $2
))
"""
_PAGE = """
SELECT id, at, message_id, partition, message_offset, attempt, status, outcome, latency_ms,
    response, detail
FROM push_attempts
WHERE tenant_id = $1 AND subscription_uid = $2 AND id < $3
    AND ($4::text IS NULL OR outcome = $4) AND ($5::text IS NULL OR message_id = $5)
ORDER BY id DESC LIMIT $6
"""


@dataclass(frozen=True, slots=True)
class PushAttempt:
    """One message of one request."""

    id: bytes
    """Sorts by time."""
    at: datetime
    message_id: str
    partition: int
    offset: int
    attempt: int
    status: int | None
    outcome: AttemptOutcome
    latency_ms: float
    response: bytes
    """The beginning of the answer's body."""
    detail: str


class AttemptOf(NamedTuple):
    """An attempt, and whose."""

    tenant_id: bytes
    subscription_uid: bytes
    attempt: PushAttempt


class PushAttemptRepository:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, attempts: Sequence[AttemptOf]) -> None:
        """Append attempts of any tenants in one statement."""
        columns = list(zip(*(_row(one) for one in attempts), strict=True))

        async def work(connection: Connection) -> None:
            await connection.execute(_APPEND, *columns)

        await self._database.statement(work, writes=True)

    async def trim(self, subscriptions: Iterable[tuple[bytes, bytes]], kept: int = KEPT) -> None:
        """Delete all but the newest attempts of each (tenant, subscription)."""
        pairs = list(subscriptions)

        async def work(connection: Connection) -> None:
            tenants, uids = [tenant for tenant, _ in pairs], [uid for _, uid in pairs]
            await connection.execute(_TRIM, tenants, uids, kept)

        await self._database.statement(work, writes=True)

    async def prune(self) -> None:
        """Delete some attempts that are too old, of all tenants."""

        async def work(connection: Connection) -> None:
            await connection.execute(_PRUNE, KEPT_DAYS, PRUNE_AT_ONCE)

        await self._database.statement(work, writes=True)

    async def page(
        self,
        tenant_id: bytes,
        subscription_uid: bytes,
        *,
        before: bytes = END,
        outcome: str | None = None,
        message_id: str | None = None,
        limit: int,
    ) -> list[PushAttempt]:
        """Return at most `limit` attempts, newest first; fewer are the last."""

        async def work(connection: Connection) -> list[PushAttempt]:
            rows = await connection.fetch(
                _PAGE, tenant_id, subscription_uid, before, outcome, message_id, limit
            )
            return [PushAttempt(*row) for row in rows]

        return await self._database.of(tenant_id).statement(work, writes=False)


def _row(one: AttemptOf) -> tuple[object, ...]:
    attempt = one.attempt
    return (
        one.tenant_id,
        one.subscription_uid,
        attempt.id,
        attempt.at,
        attempt.message_id,
        attempt.partition,
        attempt.offset,
        attempt.attempt,
        attempt.status,
        attempt.outcome,
        attempt.latency_ms,
        attempt.response,
        attempt.detail,
    )
