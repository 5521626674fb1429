"""Who owns a partition, decided by compare-and-set; each claim starts a new epoch.

A lease that has run out is never renewed, but a renewal that began in time may commit late: a claim
therefore locks the present owner's lease row before it looks at it, and waits for such a renewal.
Lock order, here as everywhere: assignments, forwarders, cursors, each in key order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metadata.beside import with_rows
from metadata.cursors import COLUMNS, partition_columns, state_of
from metadata.database import Connection, Database
from metadata.errors import LeaseLost
from metadata.types import Claim, CursorState, Epoch, PartitionKey

_OWN_LEASE = """
SELECT lease_until > clock_timestamp() FROM forwarders WHERE incarnation = $1 FOR KEY SHARE
"""
_LOCK_ASSIGNMENTS = """
SELECT tenant_id, topic_uid, partition, owner
FROM assignments
JOIN unnest($1::uuid[], $2::uuid[], $3::int4[]) AS wanted (tenant_id, topic_uid, partition)
    USING (tenant_id, topic_uid, partition)
ORDER BY tenant_id, topic_uid, partition
FOR UPDATE OF assignments
"""
_LIVE_OWNERS = """
SELECT incarnation, lease_until > clock_timestamp() AS live
FROM forwarders
WHERE incarnation = ANY($1::uuid[])
ORDER BY incarnation
FOR SHARE
"""
_TAKE = """
UPDATE assignments
SET owner = $4, epoch_era = $5, epoch_n = epoch_n + 1, claimed_at = clock_timestamp()
FROM unnest($1::uuid[], $2::uuid[], $3::int4[]) AS wanted (tenant_id, topic_uid, partition)
WHERE assignments.tenant_id = wanted.tenant_id
  AND assignments.topic_uid = wanted.topic_uid
  AND assignments.partition = wanted.partition
RETURNING assignments.tenant_id, assignments.topic_uid, assignments.partition,
    assignments.epoch_era, assignments.epoch_n
"""
_FENCE = (
    """
WITH locked AS MATERIALIZED (
    SELECT cursors.tenant_id, cursors.subscription_uid, cursors.partition, cursors.lane,
        wanted.epoch_era, wanted.epoch_n
    FROM cursors
    JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int8[], $5::int8[])
        AS wanted (tenant_id, topic_uid, partition, epoch_era, epoch_n)
        USING (tenant_id, topic_uid, partition)
    ORDER BY cursors.tenant_id, cursors.subscription_uid, cursors.partition, cursors.lane
    FOR NO KEY UPDATE OF cursors
)
UPDATE cursors
SET epoch_era = locked.epoch_era, epoch_n = locked.epoch_n
FROM locked
WHERE cursors.tenant_id = locked.tenant_id
  AND cursors.subscription_uid = locked.subscription_uid
  AND cursors.partition = locked.partition
  AND cursors.lane = locked.lane
RETURNING"""
    + COLUMNS
)
_CLAIMABLE = """
SELECT assignments.tenant_id, assignments.topic_uid, assignments.partition
FROM assignments
JOIN topics ON topics.tenant_id = assignments.tenant_id AND topics.uid = assignments.topic_uid
LEFT JOIN forwarders ON forwarders.incarnation = assignments.owner
WHERE topics.state = 'active'
  AND assignments.owner IS DISTINCT FROM $1
  AND coalesce(forwarders.lease_until <= clock_timestamp(), true)
ORDER BY assignments.tenant_id, assignments.topic_uid, assignments.partition
"""
RELEASE_ALL = """
WITH locked AS MATERIALIZED (
    SELECT tenant_id, topic_uid, partition FROM assignments
    WHERE owner = $1
    ORDER BY tenant_id, topic_uid, partition
    FOR UPDATE
)
UPDATE assignments SET owner = NULL
FROM locked
WHERE assignments.tenant_id = locked.tenant_id
  AND assignments.topic_uid = locked.topic_uid
  AND assignments.partition = locked.partition
  AND assignments.owner = $1
RETURNING 1
"""
_RELEASE = """
WITH locked AS MATERIALIZED (
    SELECT tenant_id, topic_uid, partition
    FROM assignments
    JOIN unnest($2::uuid[], $3::uuid[], $4::int4[]) AS wanted (tenant_id, topic_uid, partition)
        USING (tenant_id, topic_uid, partition)
    WHERE owner = $1
    ORDER BY tenant_id, topic_uid, partition
    FOR UPDATE OF assignments
)
UPDATE assignments SET owner = NULL
FROM locked
WHERE assignments.tenant_id = locked.tenant_id
  AND assignments.topic_uid = locked.topic_uid
  AND assignments.partition = locked.partition
  AND assignments.owner = $1
RETURNING 1
"""


class AssignmentRepository:
    """One row per partition, made with the topic and gone with it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, incarnation: bytes, keys: Iterable[PartitionKey], *, era: int = 0
    ) -> dict[PartitionKey, Claim]:
        """Takes each partition whose last owner released it, is us, or has let its lease run out.

        Partitions that another live forwarder owns, or that are gone, are not in the answer.
        Claiming our own again is how an unknown flush is fenced. LeaseLost when our lease is over.
        After OutcomeUnknown: claim again.
        """
        wanted = list(keys)

        async def work(connection: Connection) -> dict[PartitionKey, Claim]:
            rows = await connection.fetch(_LOCK_ASSIGNMENTS, *partition_columns(wanted))
            if not await connection.fetchval(_OWN_LEASE, incarnation):
                raise LeaseLost(f"the lease of {incarnation.hex()} is over")
            free = await _free(connection, incarnation, rows)
            taken = await connection.fetch(_TAKE, *partition_columns(free), incarnation, era)
            epochs = {
                PartitionKey(row[0], row[1], row[2]): Epoch(row["epoch_era"], row["epoch_n"])
                for row in taken
            }
            cursors = await _fence(connection, epochs)
            return {key: Claim(key, epoch, tuple(cursors[key])) for key, epoch in epochs.items()}

        return await self._database.transaction(work) if wanted else {}

    async def claimable(self, incarnation: bytes) -> list[PartitionKey]:
        """Partitions of active topics that `claim` would give us and that we don't own."""

        async def work(connection: Connection) -> list[PartitionKey]:
            return [PartitionKey(*row) for row in await connection.fetch(_CLAIMABLE, incarnation)]

        return await self._database.statement(work, writes=False)

    async def release(self, incarnation: bytes, keys: Iterable[PartitionKey] | None = None) -> int:
        """Gives up these partitions (None: all of ours); how many were ours."""
        columns = () if keys is None else partition_columns(keys)
        statement = RELEASE_ALL if keys is None else _RELEASE

        async def work(connection: Connection) -> int:
            return len(await connection.fetch(statement, incarnation, *columns))

        return await self._database.statement(work, writes=True)


async def _free(connection: Connection, incarnation: bytes, rows: list[Any]) -> list[PartitionKey]:
    """Of the locked assignments, those without a live owner other than ourselves."""
    owners = {row["owner"] for row in rows} - {None, incarnation}
    live: set[bytes] = set()
    if owners:
        leases = await connection.fetch(_LIVE_OWNERS, sorted(owners))
        live = {row["incarnation"] for row in leases if row["live"]}
    return [PartitionKey(row[0], row[1], row[2]) for row in rows if row["owner"] not in live]


async def _fence(
    connection: Connection, epochs: dict[PartitionKey, Epoch]
) -> dict[PartitionKey, list[CursorState]]:
    """Moves the cursors of the claimed partitions to their new epochs; waits for flushes."""
    cursors: dict[PartitionKey, list[CursorState]] = {key: [] for key in epochs}
    ordered = sorted(epochs)
    rows = await connection.fetch(
        _FENCE,
        [key.tenant_id for key in ordered],
        [key.topic_uid for key in ordered],
        [key.partition for key in ordered],
        [epochs[key].era for key in ordered],
        [epochs[key].n for key in ordered],
    )
    for state in await with_rows(connection, [state_of(row) for row in rows]):
        key = PartitionKey(state.key.tenant_id, state.topic_uid, state.key.partition)
        cursors[key].append(state)
    return cursors
