"""The beginning of an export in a lane, and the pins that hold the history from its position on.

A transaction that sets a pin has locked the lane as the truncator does, and knows the trimmed
offset. So no message from a pin on is gone, and none goes while the pin is there. A pin moves
forward only over what the table has, or the export is not to have.

A lane that comes into being after an export (its topic is new, or grew) is pinned from its first
message on before the truncator looks at it for the first time (scheduler/keeper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.topics.pins import PinKind


class LaneOf(NamedTuple):
    """A lane among those of a tenant."""

    topic_uid: bytes
    partition: int
    lane: int


class Begin(NamedTuple):
    """An export that is to begin in lanes it has not begun in."""

    tenant_id: bytes
    export_uid: bytes
    lanes: frozenset[LaneOf]


_TOPICS = """
SELECT uid FROM topics
WHERE tenant_id = $1 AND uid = ANY ($2::uuid[]) AND state = 'active'
ORDER BY uid
FOR KEY SHARE
"""
_TRIMMED = """
SELECT p.topic_uid, p.partition, p.lane, p.trimmed_to
FROM partitions AS p
JOIN unnest($2::uuid[], $3::integer[], $4::smallint[]) AS wanted (topic_uid, partition, lane)
    USING (topic_uid, partition, lane)
WHERE p.tenant_id = $1
ORDER BY p.topic_uid, p.partition, p.lane, p.generation
FOR SHARE OF p
"""
_BEGIN = """
WITH begun AS (
    INSERT INTO export_positions AS x
        (tenant_id, export_uid, topic_uid, partition, lane, begins, reached)
    SELECT $1, $2, new.topic_uid, new.partition, new.lane, new.at, new.at
    FROM unnest($3::uuid[], $4::integer[], $5::smallint[], $6::bigint[])
        AS new (topic_uid, partition, lane, at)
    ON CONFLICT (tenant_id, export_uid, topic_uid, partition, lane) DO NOTHING
    RETURNING topic_uid, partition, lane, begins
)
INSERT INTO pins (tenant_id, topic_uid, partition, lane, holder, kind, pinned_offset)
SELECT $1, topic_uid, partition, lane, $2, $7, begins FROM begun
ON CONFLICT (tenant_id, topic_uid, partition, lane, holder)
DO UPDATE SET pinned_offset = EXCLUDED.pinned_offset
"""
_PIN = """
INSERT INTO pins (tenant_id, topic_uid, partition, lane, holder, kind, pinned_offset)
SELECT $1, new.topic_uid, new.partition, new.lane, $2, $7, new.at
FROM unnest($3::uuid[], $4::integer[], $5::smallint[], $6::bigint[])
    AS new (topic_uid, partition, lane, at)
ON CONFLICT (tenant_id, topic_uid, partition, lane, holder)
DO UPDATE SET pinned_offset = EXCLUDED.pinned_offset
"""
_FOLLOW = """
UPDATE pins
SET pinned_offset = x.reached
FROM export_positions AS x
WHERE x.tenant_id = $1 AND x.export_uid = $2
  AND pins.tenant_id = x.tenant_id AND pins.topic_uid = x.topic_uid
  AND pins.partition = x.partition AND pins.lane = x.lane AND pins.holder = x.export_uid
  AND pins.pinned_offset < x.reached
"""
_DROP = """
DELETE FROM pins
USING export_positions AS x
WHERE x.tenant_id = $1 AND x.export_uid = $2
  AND pins.tenant_id = x.tenant_id AND pins.topic_uid = x.topic_uid
  AND pins.partition = x.partition AND pins.lane = x.lane AND pins.holder = x.export_uid
"""
_MISSING = """
SELECT DISTINCT e.tenant_id, e.uid, t.uid AS topic_uid, p.partition, p.lane
FROM exports AS e
JOIN topics AS t
    ON t.tenant_id = e.tenant_id AND t.state = 'active' AND t.name LIKE e.topic_like
JOIN partitions AS p ON p.tenant_id = t.tenant_id AND p.topic_uid = t.uid
LEFT JOIN export_positions AS x
    ON x.tenant_id = e.tenant_id AND x.export_uid = e.uid AND x.topic_uid = p.topic_uid
    AND x.partition = p.partition AND x.lane = p.lane
WHERE x.export_uid IS NULL
"""
_LOCK_EXPORT = "SELECT FROM exports WHERE tenant_id = $1 AND uid = $2 FOR NO KEY UPDATE"


async def trimmed(
    connection: Connection, tenant_id: bytes, lanes: frozenset[LaneOf]
) -> dict[LaneOf, int]:
    """Below these offsets nothing is left, and no more goes before the transaction is over; without
    the lanes that are gone, or going with their topic."""
    found: dict[LaneOf, int] = {}
    uids = sorted({lane.topic_uid for lane in lanes})
    active = {row["uid"] for row in await connection.fetch(_TOPICS, tenant_id, uids)}
    columns = _columns({lane: 0 for lane in lanes if lane.topic_uid in active})[:3]
    for row in await connection.fetch(_TRIMMED, tenant_id, *columns):
        lane = LaneOf(*row[:3])
        found[lane] = max(found.get(lane, 0), row["trimmed_to"])
    return found


async def begin(
    connection: Connection, tenant_id: bytes, export_uid: bytes, at: Mapping[LaneOf, int]
) -> None:
    """Begin each lane at that offset, which `trimmed` has let pass; lanes that have begun
    stay unchanged.
    """
    await connection.execute(_BEGIN, tenant_id, export_uid, *_columns(at), PinKind.EXPORT.value)


async def pin(
    connection: Connection, tenant_id: bytes, export_uid: bytes, at: Mapping[LaneOf, int]
) -> None:
    """Pin each lane at that offset, which `trimmed` has let pass."""
    await connection.execute(_PIN, tenant_id, export_uid, *_columns(at), PinKind.EXPORT.value)


async def follow(connection: Connection, tenant_id: bytes, export_uid: bytes) -> None:
    """Moves its pins forward to where it is."""
    await connection.execute(_FOLLOW, tenant_id, export_uid)


async def drop(connection: Connection, tenant_id: bytes, export_uid: bytes) -> None:
    """Drop all pins of an export, before its positions go."""
    await connection.execute(_DROP, tenant_id, export_uid)


class ExportPinRepository:
    """Reads pins of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin_in_new_lanes(self) -> int:
        """Pins the lanes of active topics that an export takes and has not begun in, each from the
        first message that is left; how many. Raises MetadataError, once it has tried them all."""
        begun = 0
        for each in await self._missing():
            begun += await self._begin(each)
        return begun

    async def _missing(self) -> list[Begin]:
        async def work(connection: Connection) -> list[Begin]:
            lanes: dict[tuple[bytes, bytes], set[LaneOf]] = {}
            for row in await connection.fetch(_MISSING):
                lanes.setdefault((row["tenant_id"], row["uid"]), set()).add(LaneOf(*row[2:]))
            return [Begin(*key, frozenset(some)) for key, some in lanes.items()]

        return await self._database.statement(work, writes=False)

    async def _begin(self, what: Begin) -> int:
        async def work(connection: Connection) -> int:
            if await connection.fetchrow(_LOCK_EXPORT, what.tenant_id, what.export_uid) is None:
                return 0
            at = await trimmed(connection, what.tenant_id, what.lanes)
            await begin(connection, what.tenant_id, what.export_uid, at)
            return len(at)

        return await self._database.of(what.tenant_id).transaction(work)


def _columns(at: Mapping[LaneOf, int]) -> tuple[list[bytes], list[int], list[int], list[int]]:
    """Return columns in the order in which rows are locked."""
    lanes = sorted(at)
    return (
        [each.topic_uid for each in lanes],
        [each.partition for each in lanes],
        [each.lane for each in lanes],
        [at[each] for each in lanes],
    )
