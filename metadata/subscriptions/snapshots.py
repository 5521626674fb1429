"""Snapshots: named points in a topic's history, made of one subscription's ack state.

The creation locks the partitions' rows as the truncator locks them, then the cursors' rows, and
copies their content in the same transaction that pins the history from there on. So while the
snapshot exists, no message that is unacked in it can be trimmed, except those that were trimmed
already: single messages of these are stored while some subscription has stepped over them
(seeks.py).

An expired snapshot does not exist for callers, whether its rows have been swept or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from metadata.database import Connection, Database
from metadata.delivery.beside import parse_ranges
from metadata.errors import Conflict, MetadataError, NotFound
from metadata.ids import new_uid
from metadata.paging import name_after, page_of
from metadata.subscriptions.seeks import LaneOf, Target
from metadata.types import Page

MAX_SNAPSHOTS = 1000
"""The limit of snapshots of one tenant; each holds history."""

_OF_SUBSCRIPTION = """
SELECT subscriptions.uid, topics.uid AS topic_uid, topics.name AS topic_name
FROM subscriptions
JOIN topics ON topics.tenant_id = subscriptions.tenant_id
    AND topics.uid = subscriptions.topic_uid
WHERE subscriptions.tenant_id = $1 AND subscriptions.name = $2 AND topics.state = 'active'
FOR KEY SHARE OF topics
"""
_FREE_NAME = """
DELETE FROM snapshots WHERE tenant_id = $1 AND name = $2 AND expires_at <= now()
RETURNING topic_uid, uid
"""
_DROP_PINS = "DELETE FROM pins WHERE tenant_id = $1 AND topic_uid = $2 AND holder = $3"
_COUNT = "SELECT count(*) FROM snapshots WHERE tenant_id = $1"
_LOCK_PARTITIONS = """
SELECT 1 FROM partitions WHERE tenant_id = $1 AND topic_uid = $2
ORDER BY partition, lane, generation
FOR SHARE
"""
_LOCK_CURSORS = """
SELECT 1 FROM cursors WHERE tenant_id = $1 AND subscription_uid = $2
ORDER BY partition, lane
FOR SHARE
"""
_INSERT = """
INSERT INTO snapshots (tenant_id, uid, topic_uid, name, subscription_name, labels, expires_at)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, now() + make_interval(secs => $7))
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING expires_at, created_at
"""
_COPY = """
INSERT INTO snapshot_cursors (tenant_id, snapshot_uid, partition, lane, floor, read_to, acked)
SELECT cursors.tenant_id, $3, cursors.partition, cursors.lane, open.lowest, cursors.read_to,
    cursors.acked + int8multirange(int8range(open.lowest, cursors.floor)) - open.offsets
FROM cursors
CROSS JOIN LATERAL (
    SELECT
        coalesce(
            range_agg(int8range(message_offset, message_offset + 1)), '{}'::int8multirange
        ) AS offsets,
        least(cursors.floor, coalesce(min(message_offset), cursors.floor)) AS lowest
    FROM deliveries
    WHERE deliveries.tenant_id = cursors.tenant_id
      AND deliveries.subscription_uid = cursors.subscription_uid
      AND deliveries.partition = cursors.partition
      AND deliveries.lane = cursors.lane
) AS open
WHERE cursors.tenant_id = $1 AND cursors.subscription_uid = $2
"""
_PIN = """
INSERT INTO pins (tenant_id, topic_uid, partition, lane, holder, kind, pinned_offset, expires_at)
SELECT copied.tenant_id, $3, copied.partition, copied.lane, $2, 'snapshot',
    greatest(copied.floor, max(partitions.trimmed_to)), $4
FROM snapshot_cursors AS copied
JOIN partitions ON partitions.tenant_id = copied.tenant_id AND partitions.topic_uid = $3
    AND partitions.partition = copied.partition AND partitions.lane = copied.lane
WHERE copied.tenant_id = $1 AND copied.snapshot_uid = $2
GROUP BY copied.tenant_id, copied.partition, copied.lane, copied.floor
"""
_COLUMNS = """
SELECT snapshots.tenant_id, snapshots.uid, snapshots.topic_uid, topics.name AS topic_name,
    snapshots.name, snapshots.subscription_name, snapshots.labels::text AS labels,
    snapshots.expires_at, snapshots.created_at
FROM snapshots
JOIN topics ON topics.tenant_id = snapshots.tenant_id AND topics.uid = snapshots.topic_uid
WHERE snapshots.tenant_id = $1 AND (expires_at IS NULL OR expires_at > now())
  AND topics.state = 'active'
"""
_ONE = _COLUMNS + "AND snapshots.name = $2"
_PAGE = _COLUMNS + "AND snapshots.name > $2 ORDER BY snapshots.name LIMIT $3"
_TARGETS = """
SELECT partition, lane, floor, read_to, acked::text AS acked
FROM snapshot_cursors WHERE tenant_id = $1 AND snapshot_uid = $2
ORDER BY partition, lane
"""
_DELETE = "DELETE FROM snapshots WHERE tenant_id = $1 AND name = $2 RETURNING topic_uid, uid"
_SWEEP = """
WITH expired AS MATERIALIZED (
    SELECT tenant_id, topic_uid, uid FROM snapshots WHERE expires_at <= now()
    ORDER BY expires_at LIMIT $1
    FOR UPDATE SKIP LOCKED
), unpinned AS (
    DELETE FROM pins USING expired
    WHERE pins.tenant_id = expired.tenant_id
      AND pins.topic_uid = expired.topic_uid
      AND pins.holder = expired.uid
)
DELETE FROM snapshots USING expired
WHERE snapshots.tenant_id = expired.tenant_id AND snapshots.uid = expired.uid
RETURNING 1
"""


class TooManySnapshots(MetadataError):
    """The tenant has as many as it may."""

    code = "too_many_snapshots"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`subscription_name` is the one it was taken of; any of the same topic can go back to it."""

    tenant_id: bytes
    uid: bytes
    topic_uid: bytes
    topic_name: str
    name: str
    subscription_name: str
    labels: Mapping[str, str]
    expires_at: datetime | None
    created_at: datetime


class SnapshotRepository:
    """Names are unique per tenant; a deleted or expired one's is free at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant_id: bytes,
        subscription_name: str,
        name: str,
        *,
        expires_in_s: float,
        labels: Mapping[str, str],
    ) -> Snapshot:
        """Create a snapshot of the subscription's cursors as they are when this commits.

        Raises NotFound without such a subscription; Conflict when the name is taken;
        TooManySnapshots.
        """
        uid = new_uid()

        async def work(connection: Connection) -> Snapshot:
            found = await connection.fetchrow(_OF_SUBSCRIPTION, tenant_id, subscription_name)
            if found is None:
                raise NotFound("subscription", subscription_name)
            await _make_room(connection, tenant_id, name)
            await connection.execute(_LOCK_PARTITIONS, tenant_id, found["topic_uid"])
            await connection.execute(_LOCK_CURSORS, tenant_id, found["uid"])
            times = await connection.fetchrow(
                _INSERT,
                tenant_id,
                uid,
                found["topic_uid"],
                name,
                subscription_name,
                msgspec.json.encode(dict(labels)).decode(),
                expires_in_s,
            )
            if times is None:
                raise Conflict("snapshot", name, "exists already")
            await connection.execute(_COPY, tenant_id, found["uid"], uid)
            await connection.execute(_PIN, tenant_id, uid, found["topic_uid"], times["expires_at"])
            return Snapshot(
                tenant_id=tenant_id,
                uid=uid,
                topic_uid=found["topic_uid"],
                topic_name=found["topic_name"],
                name=name,
                subscription_name=subscription_name,
                labels=dict(labels),
                expires_at=times["expires_at"],
                created_at=times["created_at"],
            )

        return await self._database.of(tenant_id).transaction(work)

    async def get(self, tenant_id: bytes, name: str) -> Snapshot:
        """Return the snapshot. Raises NotFound."""

        async def work(connection: Connection) -> Snapshot:
            row = await connection.fetchrow(_ONE, tenant_id, name)
            if row is None:
                raise NotFound("snapshot", name)
            return _snapshot(row)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def targets(self, snapshot: Snapshot) -> dict[LaneOf, Target]:
        """Return its ack state by partition and lane; empty once it has gone."""

        async def work(connection: Connection) -> dict[LaneOf, Target]:
            rows = await connection.fetch(_TARGETS, snapshot.tenant_id, snapshot.uid)
            return {
                (row["partition"], row["lane"]): Target(
                    row["floor"], row["read_to"], parse_ranges(row["acked"])
                )
                for row in rows
            }

        return await self._database.of(snapshot.tenant_id).statement(work, writes=False)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Snapshot]:
        """Return a page of snapshots by name. Raises BadPageToken."""
        after = name_after(page_token)

        async def work(connection: Connection) -> Page[Snapshot]:
            rows = await connection.fetch(_PAGE, tenant_id, after, page_size + 1)
            return page_of([_snapshot(row) for row in rows], page_size)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def delete(self, tenant_id: bytes, name: str) -> None:
        """Delete a snapshot with its pins. Raises NotFound."""

        async def work(connection: Connection) -> None:
            gone = await connection.fetchrow(_DELETE, tenant_id, name)
            if gone is None:
                raise NotFound("snapshot", name)
            await connection.execute(_DROP_PINS, tenant_id, *gone)

        await self._database.of(tenant_id).transaction(work)

    async def sweep(self, limit: int = 100) -> int:
        """Delete the rows of up to `limit` expired snapshots; return their number."""

        async def work(connection: Connection) -> int:
            return len(await connection.fetch(_SWEEP, limit))

        return await self._database.statement(work, writes=True)


async def _make_room(connection: Connection, tenant_id: bytes, name: str) -> None:
    expired = await connection.fetchrow(_FREE_NAME, tenant_id, name)
    if expired is not None:
        await connection.execute(_DROP_PINS, tenant_id, *expired)
    if await connection.fetchval(_COUNT, tenant_id) >= MAX_SNAPSHOTS:
        raise TooManySnapshots(f"a tenant has at most {MAX_SNAPSHOTS} snapshots; delete some")


def _snapshot(row: Any) -> Snapshot:
    return Snapshot(
        tenant_id=row["tenant_id"],
        uid=row["uid"],
        topic_uid=row["topic_uid"],
        topic_name=row["topic_name"],
        name=row["name"],
        subscription_name=row["subscription_name"],
        labels=msgspec.json.decode(row["labels"]),
        expires_at=row["expires_at"],
        created_at=row["created_at"],
    )
