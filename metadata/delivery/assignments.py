"""The owners of units, decided by compare-and-set; each claim starts a new epoch.

Invariants:
- No two claims share an epoch: its number is drawn from one sequence.
- A cursor is written under one epoch at a time: that of the claim which fenced it. The claim of a
  partition fences all its cursors but those that are split off; these have a row of their own here.
- A subscription is split off, and merged back, only by the owner of the whole partition, under the
  lock on the partition's row, and both move its cursors to a new epoch: a flush sent before either
  finds nothing to write, however late it arrives.
- A lease that has run out is never renewed, but a renewal that began in time may commit late: who
  takes a unit locks the present owner's lease row before looking at it, and waits for such a one.

Lock order, here as everywhere: assignments, forwarders, subscriptions, cursors, each in key order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metadata.database import Connection, Database
from metadata.delivery.beside import with_rows
from metadata.delivery.cursors import COLUMNS, state_of, unit_columns
from metadata.errors import LeaseLost
from metadata.types import WHOLE, Claim, CursorState, Epoch, Unit

_OWN_LEASE = """
SELECT lease_until > clock_timestamp() FROM forwarders WHERE incarnation = $1 FOR KEY SHARE
"""
_LOCK_ASSIGNMENTS = """
SELECT tenant_id, topic_uid, partition, subscription_uid, owner, epoch_era, epoch_n
FROM assignments
JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[])
    AS wanted (tenant_id, topic_uid, partition, subscription_uid)
    USING (tenant_id, topic_uid, partition, subscription_uid)
ORDER BY tenant_id, topic_uid, partition, subscription_uid
FOR UPDATE OF assignments
"""
_LIVE_OWNERS = """
SELECT incarnation, lease_until > clock_timestamp() AS live
FROM forwarders
WHERE incarnation = ANY($1::uuid[])
ORDER BY incarnation
FOR SHARE
"""
_ERA = "coalesce((SELECT max(era) FROM eras), 0)"
_TAKE = (
    "UPDATE assignments SET owner = $5, epoch_era = "
    + _ERA
    + """, epoch_n = nextval('claim_epochs'), claimed_at = clock_timestamp()
FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[])
    AS wanted (tenant_id, topic_uid, partition, subscription_uid)
WHERE assignments.tenant_id = wanted.tenant_id
  AND assignments.topic_uid = wanted.topic_uid
  AND assignments.partition = wanted.partition
  AND assignments.subscription_uid = wanted.subscription_uid
RETURNING assignments.tenant_id, assignments.topic_uid, assignments.partition,
    assignments.subscription_uid, assignments.epoch_era, assignments.epoch_n
"""
)
_SPLIT_OFF = """
SELECT tenant_id, topic_uid, partition, subscription_uid
FROM assignments
JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[])
    AS wanted (tenant_id, topic_uid, partition, whole)
    USING (tenant_id, topic_uid, partition)
WHERE subscription_uid <> wanted.whole AND wanted.whole = $5
"""
_FENCE = (
    """
WITH locked AS MATERIALIZED (
    SELECT cursors.tenant_id, cursors.subscription_uid, cursors.partition, cursors.lane,
        wanted.epoch_era, wanted.epoch_n
    FROM cursors
    JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[], $5::int8[], $6::int8[])
        AS wanted (tenant_id, topic_uid, partition, unit_of, epoch_era, epoch_n)
        USING (tenant_id, topic_uid, partition)
    WHERE wanted.unit_of = cursors.subscription_uid
       OR wanted.unit_of = $7 AND NOT EXISTS (
            SELECT 1 FROM assignments AS split
            WHERE split.tenant_id = cursors.tenant_id
              AND split.topic_uid = cursors.topic_uid
              AND split.partition = cursors.partition
              AND split.subscription_uid = cursors.subscription_uid
       )
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
SELECT assignments.tenant_id, assignments.topic_uid, assignments.partition,
    assignments.subscription_uid
FROM assignments
JOIN topics ON topics.tenant_id = assignments.tenant_id AND topics.uid = assignments.topic_uid
LEFT JOIN forwarders ON forwarders.incarnation = assignments.owner
WHERE topics.state = 'active'
  AND assignments.owner IS DISTINCT FROM $1
  AND coalesce(forwarders.lease_until <= clock_timestamp(), true)
ORDER BY assignments.tenant_id, assignments.topic_uid, assignments.partition,
    assignments.subscription_uid
"""
_SUBSCRIPTION = """
SELECT 1 FROM subscriptions WHERE tenant_id = $1 AND uid = $2 AND topic_uid = $3 FOR KEY SHARE
"""
_SPLIT = (
    """
INSERT INTO assignments (
    tenant_id, topic_uid, partition, subscription_uid, epoch_era, epoch_n
)
VALUES ($1, $2, $3, $4, """
    + _ERA
    + """, nextval('claim_epochs'))
ON CONFLICT (tenant_id, topic_uid, partition, subscription_uid) DO NOTHING
RETURNING epoch_era, epoch_n
"""
)
_MERGE = """
DELETE FROM assignments
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND subscription_uid = $4
"""
_NEXT_EPOCH = "SELECT " + _ERA + " AS epoch_era, nextval('claim_epochs') AS epoch_n"
RELEASE_ALL = """
WITH locked AS MATERIALIZED (
    SELECT tenant_id, topic_uid, partition, subscription_uid FROM assignments
    WHERE owner = $1
    ORDER BY tenant_id, topic_uid, partition, subscription_uid
    FOR UPDATE
)
UPDATE assignments SET owner = NULL
FROM locked
WHERE assignments.tenant_id = locked.tenant_id
  AND assignments.topic_uid = locked.topic_uid
  AND assignments.partition = locked.partition
  AND assignments.subscription_uid = locked.subscription_uid
  AND assignments.owner = $1
RETURNING 1
"""
_RELEASE = """
WITH locked AS MATERIALIZED (
    SELECT tenant_id, topic_uid, partition, subscription_uid
    FROM assignments
    JOIN unnest($2::uuid[], $3::uuid[], $4::int4[], $5::uuid[])
        AS wanted (tenant_id, topic_uid, partition, subscription_uid)
        USING (tenant_id, topic_uid, partition, subscription_uid)
    WHERE owner = $1
    ORDER BY tenant_id, topic_uid, partition, subscription_uid
    FOR UPDATE OF assignments
)
UPDATE assignments SET owner = NULL
FROM locked
WHERE assignments.tenant_id = locked.tenant_id
  AND assignments.topic_uid = locked.topic_uid
  AND assignments.partition = locked.partition
  AND assignments.subscription_uid = locked.subscription_uid
  AND assignments.owner = $1
RETURNING 1
"""


class AssignmentRepository:
    """One row per partition, made with the topic and gone with it; one more for each subscription
    that is split off a partition."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, incarnation: bytes, keys: Iterable[Unit]) -> dict[Unit, Claim]:
        """Takes each unit whose last owner released it, is us, or has let its lease run out.

        Units that another live forwarder owns, or that are gone, are not in the answer. Claiming
        our own again is how an unknown flush is fenced. LeaseLost when our lease is over. After
        OutcomeUnknown: claim again.
        """
        wanted = list(keys)

        async def work(connection: Connection) -> dict[Unit, Claim]:
            rows = await _lock(connection, incarnation, wanted)
            free = await _free(connection, incarnation, rows)
            before = {_unit(row): _epoch(row) for row in rows}
            taken = await connection.fetch(_TAKE, *unit_columns(free), incarnation)
            epochs = {_unit(row): _epoch(row) for row in taken}
            split_off = await _split_off(connection, free)
            cursors = await _fence(connection, epochs)
            return {
                key: Claim(key, epoch, tuple(cursors[key]), before[key], frozenset(split_off[key]))
                for key, epoch in epochs.items()
            }

        return await self._database.transaction(work) if wanted else {}

    async def claimable(self, incarnation: bytes) -> list[Unit]:
        """Return units of active topics that `claim` would give to this process, and that it does
        not own.
        """

        async def work(connection: Connection) -> list[Unit]:
            return [Unit(*row) for row in await connection.fetch(_CLAIMABLE, incarnation)]

        return await self._database.statement(work, writes=False)

    async def release(self, incarnation: bytes, keys: Iterable[Unit] | None = None) -> int:
        """Gives up these units (None: all of ours); how many were ours."""
        columns = () if keys is None else unit_columns(keys)
        statement = RELEASE_ALL if keys is None else _RELEASE

        async def work(connection: Connection) -> int:
            return len(await connection.fetch(statement, incarnation, *columns))

        return await self._database.statement(work, writes=True)

    async def split(self, incarnation: bytes, unit: Unit) -> bool:
        """Makes a subscription's part of a partition that we own a unit of its own, owned by nobody
        yet; True also where it is one. False: the partition is not ours, or the subscription gone.

        Later flushes of this process for it write nothing. LeaseLost; after OutcomeUnknown: again.
        """

        async def work(connection: Connection) -> bool:
            rows = await _lock(connection, incarnation, [unit.base])
            if [row["owner"] for row in rows] != [incarnation]:
                return False
            there = (unit.tenant_id, unit.subscription_uid, unit.topic_uid)
            if not await connection.fetchval(_SUBSCRIPTION, *there):
                return False
            made = await connection.fetchrow(_SPLIT, *unit)
            if made is not None:
                await _fence(connection, {unit: _epoch(made)})
            return True

        return await self._database.transaction(work)

    async def merge(self, incarnation: bytes, unit: Unit) -> tuple[CursorState, ...] | None:
        """Makes what is split off part of its partition again, which we own: its cursors, under an
        epoch of their own until the partition is claimed again.

        None: the partition is not ours, or another live forwarder owns the unit. LeaseLost; after
        OutcomeUnknown: do it again.
        """

        async def work(connection: Connection) -> tuple[CursorState, ...] | None:
            rows = await _lock(connection, incarnation, [unit.base, unit])
            owners = {_unit(row): row["owner"] for row in rows}
            free = await _free(connection, incarnation, rows)
            if owners.get(unit.base) != incarnation or (unit in owners and unit not in free):
                return None
            await connection.execute(_MERGE, *unit)
            epoch = _epoch(await connection.fetchrow(_NEXT_EPOCH))
            return tuple((await _fence(connection, {unit: epoch}))[unit])

        return await self._database.transaction(work)


async def _lock(connection: Connection, incarnation: bytes, keys: Iterable[Unit]) -> list[Any]:
    """Lock the rows of units and return them; raises LeaseLost if our lease is over by then."""
    rows: list[Any] = await connection.fetch(_LOCK_ASSIGNMENTS, *unit_columns(keys))
    if not await connection.fetchval(_OWN_LEASE, incarnation):
        raise LeaseLost(f"the lease of {incarnation.hex()} is over")
    return rows


async def _free(connection: Connection, incarnation: bytes, rows: list[Any]) -> list[Unit]:
    """Return those of the locked assignments that have no live owner but us."""
    owners = {row["owner"] for row in rows} - {None, incarnation}
    live: set[bytes] = set()
    if owners:
        leases = await connection.fetch(_LIVE_OWNERS, sorted(owners))
        live = {row["incarnation"] for row in leases if row["live"]}
    return [_unit(row) for row in rows if row["owner"] not in live]


async def _split_off(connection: Connection, keys: Iterable[Unit]) -> dict[Unit, set[bytes]]:
    """Return the subscriptions that are split off each unit; a part has none."""
    wanted = list(keys)
    found: dict[Unit, set[bytes]] = {key: set() for key in wanted}
    for row in await connection.fetch(_SPLIT_OFF, *unit_columns(wanted), WHOLE):
        unit = _unit(row)
        found[unit.base].add(unit.subscription_uid)
    return found


async def _fence(
    connection: Connection, epochs: dict[Unit, Epoch]
) -> dict[Unit, list[CursorState]]:
    """Moves the cursors of these units to their new epochs; waits for flushes."""
    cursors: dict[Unit, list[CursorState]] = {key: [] for key in epochs}
    by_epoch = {epoch: key for key, epoch in epochs.items()}
    ordered = sorted(epochs)
    rows = await connection.fetch(
        _FENCE,
        *unit_columns(ordered),
        [epochs[key].era for key in ordered],
        [epochs[key].n for key in ordered],
        WHOLE,
    )
    for state in await with_rows(connection, [state_of(row) for row in rows]):
        cursors[by_epoch[state.epoch]].append(state)
    return cursors


def _unit(row: Any) -> Unit:
    return Unit(row["tenant_id"], row["topic_uid"], row["partition"], row["subscription_uid"])


def _epoch(row: Any) -> Epoch:
    return Epoch(row["epoch_era"], row["epoch_n"])
