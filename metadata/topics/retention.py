"""The statements of the truncator: which messages may be trimmed, and which limits a topic has.

A trim has this order, per partition: its rows are locked, the pins are read, `trimmed_to` is
written and committed; only then is the store told to truncate. A transaction that pins lower (a new
cursor, a seek back, a snapshot) locks the same rows first and finds `trimmed_to`; moving forward
needs no lock. An offset that a cursor has stepped over has its `deliveries` row in the same
transaction that moved the floor, and floors are read before those rows, so none is missed.

While a backup is taken (backup_hold.py), only messages that limits delete past all pins are
trimmed: neither those below the lowest pin, nor those that were kept and are not wanted any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Connection, Database
from metadata.models import TopicRow
from metadata.topics.backup_hold import HELD, HELD_ARGUMENTS
from metadata.types import ChangeKind, Retention

_TOPICS = """
SELECT tenant_id, uid, name, retention_mode, retention_seconds, retention_bytes,
    retention_on_limit, dedup_window_s, full_reason, full_detail
FROM topics WHERE state = 'active'
"""
_GENERATIONS = """
SELECT tenant_id, topic_uid, partition, lane, generation, group_number, base, sealed_at,
    trimmed_to, sealed_time_us
FROM partitions
ORDER BY tenant_id, topic_uid, partition, lane, generation
"""
_FLOORS = """
SELECT tenant_id, topic_uid, partition, lane, min(pinned) AS pinned FROM (
    SELECT tenant_id, topic_uid, partition, lane, floor AS pinned FROM cursors
    UNION ALL
    SELECT tenant_id, topic_uid, partition, lane, pinned_offset FROM pins
    WHERE expires_at IS NULL OR expires_at > now()
) AS held
GROUP BY tenant_id, topic_uid, partition, lane
"""
_CURSORS = """
SELECT tenant_id, topic_uid, partition, lane, min(floor) AS lowest, count(*) AS cursors,
    sum(floor)::text AS total
FROM cursors GROUP BY tenant_id, topic_uid, partition, lane
"""
_KEPT = """
SELECT cursors.tenant_id, cursors.topic_uid, cursors.partition, cursors.lane,
    count(*) AS offsets, sum(message_offset)::text AS total
FROM deliveries JOIN cursors USING (tenant_id, subscription_uid, partition, lane)
GROUP BY cursors.tenant_id, cursors.topic_uid, cursors.partition, cursors.lane
"""
_LOCK = """
SELECT generation, group_number, base, sealed_at, trimmed_to, sealed_time_us FROM partitions
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4
ORDER BY generation
FOR UPDATE
"""
_PINNED = """
SELECT least(
    (SELECT min(floor) FROM cursors
     WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4),
    (SELECT min(pinned_offset) FROM pins
     WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4
       AND (expires_at IS NULL OR expires_at > now()))
)
"""
_KEPT_OF = """
SELECT DISTINCT message_offset
FROM deliveries JOIN cursors USING (tenant_id, subscription_uid, partition, lane)
WHERE cursors.tenant_id = $1 AND cursors.topic_uid = $2
  AND cursors.partition = $3 AND cursors.lane = $4 AND message_offset < $5
ORDER BY message_offset
"""
_TRIM = """
UPDATE partitions SET trimmed_to = least($5, coalesce(sealed_at, $5))
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4
  AND base <= $5 AND trimmed_to < least($5, coalesce(sealed_at, $5))
"""
_USAGE = """
INSERT INTO topic_usage (tenant_id, topic_uid, stored_bytes, staged)
SELECT new.* FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[])
    AS new (tenant_id, topic_uid, stored_bytes, staged)
JOIN topics ON topics.tenant_id = new.tenant_id AND topics.uid = new.topic_uid
FOR KEY SHARE OF topics
ON CONFLICT (tenant_id, topic_uid) DO UPDATE
SET stored_bytes = EXCLUDED.stored_bytes, staged = EXCLUDED.staged, measured_at = now()
"""


class LaneKey(NamedTuple):
    """One partition and lane, through all its generations: what is trimmed at a time."""

    tenant_id: bytes
    topic_uid: bytes
    partition: int
    lane: int


class Generation(NamedTuple):
    """One queue of it, as its row says. It holds [base, sealed_at), and all from base while open;
    below `trimmed_to` is gone, or going."""

    number: int
    group: int
    base: int
    sealed_at: int | None
    trimmed_to: int
    sealed_time_us: int | None = None


class KeptSignature(NamedTuple):
    """Tells one set of kept offsets from another, well enough to see that it changed."""

    offsets: int
    total: int


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """An active topic as the truncator needs it."""

    tenant_id: bytes
    uid: bytes
    name: str
    retention: Retention
    dedup_window_s: int
    full: str | None
    full_detail: str


@dataclass(frozen=True, slots=True)
class Holds:
    """The holds of history, by lane: the lowest cursor floor or pin, and kept offsets."""

    pinned: dict[LaneKey, int]
    kept: dict[LaneKey, KeptSignature]
    by_backup: bool = False
    """A backup holds all of it: see backup_hold.py."""


class Floors(NamedTuple):
    """The ack floors of a lane's cursors, one of each subscription: the lowest, how many, their
    sum."""

    lowest: int
    cursors: int
    total: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A committed trim: the store may drop what is below `trimmed_to` but `kept` (ascending)."""

    trimmed_to: int
    kept: tuple[int, ...]
    generations: tuple[Generation, ...]


class FullFlag(NamedTuple):
    """The state of a topic that says whether it takes messages.

    `reason` is a problem type or None, `detail` is for people.
    """

    tenant_id: bytes
    topic_uid: bytes
    reason: str | None
    detail: str


class RetentionRepository:
    """Reads across tenants; safe from several processes at once, for nothing moves back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def topics(self) -> tuple[list[TopicLimits], dict[LaneKey, list[Generation]]]:
        """Return every active topic, and the generations of each lane, oldest first."""

        async def work(
            connection: Connection,
        ) -> tuple[list[TopicLimits], dict[LaneKey, list[Generation]]]:
            topics = await connection.fetch(_TOPICS)
            active = {(row["tenant_id"], row["uid"]) for row in topics}
            lanes: dict[LaneKey, list[Generation]] = {}
            for row in await connection.fetch(_GENERATIONS):
                if (row[0], row[1]) in active:
                    lanes.setdefault(LaneKey(*row[:4]), []).append(Generation(*row[4:]))
            return [_limits(row) for row in topics], lanes

        return await self._database.statement(work, writes=False)

    async def holds(self) -> Holds:
        """Return the holds that are committed now, without lanes that have no cursor or pin."""

        async def work(connection: Connection) -> Holds:
            floors = await connection.fetch(_FLOORS)
            kept = await connection.fetch(_KEPT)
            by_backup = await connection.fetchval(HELD, *HELD_ARGUMENTS)
            return Holds(
                {LaneKey(*row[:4]): row["pinned"] for row in floors},
                {
                    LaneKey(*row[:4]): KeptSignature(row["offsets"], int(row["total"]))
                    for row in kept
                },
                by_backup,
            )

        return await self._database.statement(work, writes=False)

    async def floors(self) -> dict[LaneKey, Floors]:
        """Return the floors that are committed now, without lanes that nobody subscribes to."""

        async def work(connection: Connection) -> dict[LaneKey, Floors]:
            rows = await connection.fetch(_CURSORS)
            return {
                LaneKey(*row[:4]): Floors(row["lowest"], row["cursors"], int(row["total"]))
                for row in rows
            }

        return await self._database.statement(work, writes=False)

    async def trim(self, key: LaneKey, target: int, *, past_pins: bool) -> Trimmed | None:
        """Raise `trimmed_to` to `target`, or with `past_pins` unset to the lowest pin below it.

        It never goes back. Returns None when the partition is gone, or a backup holds it.
        """

        async def work(connection: Connection) -> Trimmed | None:
            generations = [Generation(*row) for row in await connection.fetch(_LOCK, *key)]
            if not generations:
                return None
            upto = target
            if not past_pins:
                pinned = await connection.fetchval(_PINNED, *key)
                upto = target if pinned is None else min(target, pinned)
            upto = max(upto, *(each.trimmed_to for each in generations))
            kept = await connection.fetch(_KEPT_OF, *key, upto)
            # Asked last: a hold that is not there now began after all that was read.
            if not past_pins and await connection.fetchval(HELD, *HELD_ARGUMENTS):
                return None
            await connection.execute(_TRIM, *key, upto)
            return Trimmed(upto, tuple(row[0] for row in kept), tuple(generations))

        return await self._database.transaction(work)

    async def set_full(self, flags: Sequence[FullFlag]) -> None:
        """Tells every process through the change feed. The topic's own version, its ETag, stays."""

        async def work(session: AsyncSession, tenant_id: bytes) -> None:
            await changes.wait_turn(session, tenant_id)
            told = []
            for flag in flags:
                if flag.tenant_id != tenant_id:
                    continue
                row = await session.get(TopicRow, (tenant_id, flag.topic_uid))
                if row is None or (row.full_reason, row.full_detail or "") == flag[2:]:
                    continue
                row.full_reason = flag.reason
                row.full_detail = flag.detail if flag.reason is not None else None
                told.append(
                    changes.FeedChange(ChangeKind.TOPIC, tenant_id, row.uid, row.name, row.uid)
                )
            if told:
                await changes.tell(session, *told)

        # Each tenant in a transaction of its own: one that is kept waiting keeps no other.
        for each in sorted({flag.tenant_id for flag in flags}):
            await self._database.platform.write(partial(work, tenant_id=each))

    async def note_usage(self, usage: Iterable[tuple[bytes, bytes, int, int]]) -> None:
        """Store (tenant, topic, stored bytes, staged messages) as measured now."""
        rows = sorted(usage)

        async def work(connection: Connection) -> None:
            await connection.execute(_USAGE, *map(list, zip(*rows, strict=True)))

        if rows:
            await self._database.statement(work, writes=True)


def _limits(row: Connection) -> TopicLimits:
    return TopicLimits(
        tenant_id=row["tenant_id"],
        uid=row["uid"],
        name=row["name"],
        retention=Retention(
            row["retention_mode"],
            row["retention_seconds"],
            row["retention_bytes"],
            row["retention_on_limit"],
        ),
        dedup_window_s=row["dedup_window_s"],
        full=row["full_reason"],
        full_detail=row["full_detail"] or "",
    )
