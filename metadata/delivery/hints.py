"""Keeps the scheduler's hints where units should be, valid while the named forwarder lives.

Nothing depends on them: without any, each topic is at its home. Only the scheduler writes them,
under the fence of its lock, so that one that was paused past its lease changes nothing.
Lock order: the scheduler's lock, topics, hints, each in key order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from metadata.database import Connection, Database
from metadata.locks import locks
from metadata.locks.locks import Lock
from metadata.types import WHOLE, Unit


class Hint(NamedTuple):
    """One row, as operators and the scheduler see it."""

    unit: Unit
    forwarder: bytes
    """The incarnation of the forwarder."""
    reason: str
    age_s: float


_ALL = """
SELECT tenant_id, topic_uid, partition, subscription_uid, forwarder FROM assignment_hints
"""
_LISTING = """
SELECT tenant_id, topic_uid, partition, subscription_uid, forwarder, reason,
    extract(epoch FROM clock_timestamp() - made_at)::float8 AS age_s
FROM assignment_hints
ORDER BY tenant_id, topic_uid, partition, subscription_uid
"""
_SET = """
WITH known AS MATERIALIZED (
    SELECT wanted.*
    FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[], $5::uuid[], $6::text[])
        AS wanted (tenant_id, topic_uid, partition, subscription_uid, forwarder, reason)
    JOIN topics ON topics.tenant_id = wanted.tenant_id AND topics.uid = wanted.topic_uid
    ORDER BY wanted.tenant_id, wanted.topic_uid, wanted.partition, wanted.subscription_uid
    FOR KEY SHARE OF topics
)
INSERT INTO assignment_hints
    (tenant_id, topic_uid, partition, subscription_uid, forwarder, reason, made_at)
SELECT tenant_id, topic_uid, partition, subscription_uid, forwarder, reason, clock_timestamp()
FROM known
ON CONFLICT (tenant_id, topic_uid, partition, subscription_uid)
DO UPDATE SET forwarder = excluded.forwarder, reason = excluded.reason, made_at = excluded.made_at
"""
_REMOVE = """
DELETE FROM assignment_hints
USING unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[])
    AS gone (tenant_id, topic_uid, partition, subscription_uid)
WHERE assignment_hints.tenant_id = gone.tenant_id
  AND assignment_hints.topic_uid = gone.topic_uid
  AND assignment_hints.partition = gone.partition
  AND assignment_hints.subscription_uid = gone.subscription_uid
"""
# A dead forwarder comes back under another incarnation, so its hints never mean anything again.
_PRUNE = """
DELETE FROM assignment_hints
WHERE NOT EXISTS (
    SELECT FROM forwarders
    WHERE forwarders.incarnation = assignment_hints.forwarder
      AND forwarders.lease_until > clock_timestamp()
)
OR subscription_uid <> $1 AND NOT EXISTS (
    SELECT FROM subscriptions
    WHERE subscriptions.tenant_id = assignment_hints.tenant_id
      AND subscriptions.uid = assignment_hints.subscription_uid
)
RETURNING 1
"""


class HintRepository:
    """Reads and writes `assignment_hints`; the rows of a topic go with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> Mapping[Unit, bytes]:
        """Return the incarnation at which each hinted unit should be; it may be dead."""

        async def work(connection: Connection) -> dict[Unit, bytes]:
            return {Unit(*row[:4]): row[4] for row in await connection.fetch(_ALL)}

        return await self._database.statement(work, writes=False)

    async def listing(self) -> list[Hint]:
        """Return all hints with their reason and age, in the order of units."""

        async def work(connection: Connection) -> list[Hint]:
            rows = await connection.fetch(_LISTING)
            return [Hint(Unit(*row[:4]), *row[4:]) for row in rows]

        return await self._database.statement(work, writes=False)

    async def replace(
        self, lock: Lock, put: Mapping[Unit, tuple[bytes, str]], remove: Iterable[Unit] = ()
    ) -> None:
        """Sets those of `put` (forwarder, reason) and takes away `remove`, together. Units of
        topics that are gone are passed over. LeaseLost when the lock has a new holder; can be
        repeated after OutcomeUnknown.
        """
        units = sorted(put)
        gone = sorted(remove)

        async def work(connection: Connection) -> None:
            await locks.check(connection, lock)
            if gone:
                await connection.execute(_REMOVE, *_columns(gone))
            if units:
                forwarders = [put[unit][0] for unit in units]
                reasons = [put[unit][1] for unit in units]
                await connection.execute(_SET, *_columns(units), forwarders, reasons)

        if units or gone:
            await self._database.transaction(work)

    async def prune(self, lock: Lock) -> int:
        """Deletes those of dead forwarders and of subscriptions that are gone; how many. LeaseLost
        when the lock has a new holder."""

        async def work(connection: Connection) -> int:
            await locks.check(connection, lock)
            return len(await connection.fetch(_PRUNE, WHOLE))

        return await self._database.transaction(work)


def _columns(units: Iterable[Unit]) -> tuple[list[Any], ...]:
    """Return the columns of units as arrays for unnest."""
    return tuple(list(column) for column in zip(*units, strict=True))
