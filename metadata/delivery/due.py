"""Keeps the due index: when which staged messages are due, as of the scheduler's last write.

The store decides; this is a projection that spares a new scheduler from listing every staged
message. A row may name a message that is staged no more (releasing it again changes nothing), but
none is missing: what a queue has staged below its `projected_to` has its row. Only the holder of
the scheduler's lock writes, which each write checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.locks import locks
from metadata.locks.locks import Lock

_PROGRESS = """
SELECT tenant_id, topic_uid, partition, lane, generation, projected_to, changes FROM due_progress
"""
_DUE = """
SELECT tenant_id, topic_uid, partition, lane, generation, stage_number, due_us
FROM due_index WHERE due_us <= $1 ORDER BY due_us LIMIT $2
"""
_PUT = """
INSERT INTO due_index (tenant_id, topic_uid, partition, lane, generation, stage_number, due_us)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int2[], $5::int4[], $6::int8[],
    $7::int8[])
ON CONFLICT (tenant_id, topic_uid, partition, lane, generation, stage_number)
DO UPDATE SET due_us = EXCLUDED.due_us
"""
_DROP = """
DELETE FROM due_index
USING unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int2[], $5::int4[], $6::int8[])
    AS gone (tenant_id, topic_uid, partition, lane, generation, stage_number)
WHERE due_index.tenant_id = gone.tenant_id
  AND due_index.topic_uid = gone.topic_uid
  AND due_index.partition = gone.partition
  AND due_index.lane = gone.lane
  AND due_index.generation = gone.generation
  AND due_index.stage_number = gone.stage_number
"""
_ADVANCE = """
INSERT INTO due_progress
    (tenant_id, topic_uid, partition, lane, generation, projected_to, changes)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int2[], $5::int4[], $6::int8[],
    $7::int8[])
ON CONFLICT (tenant_id, topic_uid, partition, lane, generation)
DO UPDATE SET projected_to = EXCLUDED.projected_to, changes = EXCLUDED.changes
"""
_DROP_QUEUE = """
DELETE FROM due_index WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM due_index
    WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4 AND generation = $5
    LIMIT $6
))
"""
_DROP_PROGRESS = """
DELETE FROM due_progress
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4 AND generation = $5
"""
# The sweep of a queue goes by its progress; rows that came before it are found once they are due.
_DROP_ORPHANS = """
DELETE FROM due_index WHERE ctid = ANY(ARRAY(
    SELECT due_index.ctid FROM due_index
    LEFT JOIN partitions USING (tenant_id, topic_uid, partition, lane, generation)
    WHERE due_us <= $1 AND partitions.base IS NULL
    LIMIT $2
))
"""


class QueueKey(NamedTuple):
    """One generation of one partition and lane: a queue of the store, by whom it belongs to."""

    tenant_id: bytes
    topic_uid: bytes
    partition: int
    lane: int
    generation: int


class Due(NamedTuple):
    """A staged message and its time, µs of log time."""

    queue: QueueKey
    stage_number: int
    due_us: int


class Progress(NamedTuple):
    """The projected part of a queue: the numbers below `projected_to`, and the first `changes`
    changes.
    """

    projected_to: int = 0
    changes: int = 0


class DueRepository:
    """Reads and writes `due_index` and `due_progress`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def progress(self) -> dict[QueueKey, Progress]:
        """Return the progress of every queue that ever staged anything."""

        async def work(connection: Connection) -> dict[QueueKey, Progress]:
            rows = await connection.fetch(_PROGRESS)
            return {QueueKey(*row[:5]): Progress(row[5], row[6]) for row in rows}

        return await self._database.statement(work, writes=False)

    async def due_until(self, until_us: int, limit: int) -> list[Due]:
        """Return the first `limit` rows due by then, in the order of their times."""

        async def work(connection: Connection) -> list[Due]:
            rows = await connection.fetch(_DUE, until_us, limit)
            return [Due(QueueKey(*row[:5]), row[5], row[6]) for row in rows]

        return await self._database.statement(work, writes=False)

    async def write(
        self,
        lock: Lock,
        put: Sequence[Due],
        gone: Sequence[tuple[QueueKey, int]],
        progress: Mapping[QueueKey, Progress],
    ) -> None:
        """Write all of it in one transaction: first `gone`, then `put`, which names each message
        once.

        Raises LeaseLost if the lock has a new holder.
        """

        async def work(connection: Connection) -> None:
            await locks.check(connection, lock)
            if gone:
                numbers = [number for _, number in gone]
                await connection.execute(_DROP, *_columns([queue for queue, _ in gone]), numbers)
            if put:
                columns = _columns([due.queue for due in put])
                numbers = [due.stage_number for due in put]
                await connection.execute(_PUT, *columns, numbers, [due.due_us for due in put])
            if progress:
                done = list(progress.values())
                await connection.execute(
                    _ADVANCE,
                    *_columns(progress),
                    [each.projected_to for each in done],
                    [each.changes for each in done],
                )

        await self._database.transaction(work)

    async def forget(self, lock: Lock, queue: QueueKey, *, rows: int = 5000) -> bool:
        """Drops up to that many rows of a queue that is gone, and its progress with the last ones;
        whether all are gone."""

        async def work(connection: Connection) -> bool:
            await locks.check(connection, lock)
            status = await connection.execute(_DROP_QUEUE, *queue, rows)
            if int(status.split()[-1]) == rows:
                return False
            await connection.execute(_DROP_PROGRESS, *queue)
            return True

        return await self._database.transaction(work)

    async def forget_orphans(self, lock: Lock, before_us: int, *, rows: int = 5000) -> None:
        """Drops up to that many rows due before then whose queue is gone."""

        async def work(connection: Connection) -> None:
            await locks.check(connection, lock)
            await connection.execute(_DROP_ORPHANS, before_us, rows)

        await self._database.transaction(work)


def _columns(queues: Iterable[QueueKey]) -> tuple[list[bytes | int], ...]:
    """Return the columns of queues as arrays for unnest."""
    rows = list(queues)
    return tuple([row[at] for row in rows] for at in range(len(QueueKey._fields)))
