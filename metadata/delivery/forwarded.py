"""Keeps new offsets of messages that were staged in a queue which was sealed before their time.

Their id names the queue and number they were staged under, for good; these rows lead from it to the
offset they have now. They stay until that offset is trimmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.delivery.due import QueueKey

_RECORD = """
INSERT INTO forwarded (tenant_id, topic_uid, partition, lane, generation, stage_number,
    to_partition, to_offset)
SELECT $1, $2, $3, $4, $5, moved.stage_number, moved.to_partition, moved.to_offset
FROM unnest($6::int8[], $7::int4[], $8::int8[])
    AS moved (stage_number, to_partition, to_offset)
ON CONFLICT (tenant_id, topic_uid, partition, lane, generation, stage_number) DO NOTHING
"""
_FIND = """
SELECT stage_number, to_partition, to_offset FROM forwarded
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4 AND generation = $5
  AND stage_number = ANY($6::int8[])
"""
_FORGET = """
DELETE FROM forwarded
WHERE tenant_id = $1 AND topic_uid = $2 AND to_partition = $3 AND lane = $4 AND to_offset < $5
"""
_FORGET_TOPIC = """
DELETE FROM forwarded WHERE ctid = ANY(ARRAY(
    SELECT forwarded.ctid FROM forwarded
    LEFT JOIN topics
        ON topics.tenant_id = forwarded.tenant_id AND topics.uid = forwarded.topic_uid
    WHERE topics.uid IS NULL
    LIMIT 5000
))
"""


class Forwarded(NamedTuple):
    """One message: its number in the sealed queue, and where it is."""

    stage_number: int
    partition: int
    offset: int


class ForwardedRepository:
    """Reads and writes `forwarded`; the first record of a message decides: it is copied once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, queue: QueueKey, moved: Sequence[Forwarded]) -> None:
        """Record the new offsets of moved messages. Idempotent."""

        async def work(connection: Connection) -> None:
            await connection.execute(_RECORD, *queue, *map(list, zip(*moved, strict=True)))

        if moved:
            await self._database.statement(work, writes=True)

    async def find(self, queue: QueueKey, numbers: Sequence[int]) -> dict[int, Forwarded]:
        """Return those of `numbers` that were forwarded and not trimmed since."""

        async def work(connection: Connection) -> dict[int, Forwarded]:
            rows = await connection.fetch(_FIND, *queue, numbers)
            return {row[0]: Forwarded(*row) for row in rows}

        return await self._database.statement(work, writes=False) if numbers else {}

    async def forget(
        self, tenant_id: bytes, topic_uid: bytes, partition: int, lane: int, below: int
    ) -> None:
        """Forget messages whose offsets are trimmed."""

        async def work(connection: Connection) -> None:
            await connection.execute(_FORGET, tenant_id, topic_uid, partition, lane, below)

        await self._database.statement(work, writes=True)

    async def forget_topics(self) -> None:
        """Forget some messages of deleted topics."""

        async def work(connection: Connection) -> None:
            await connection.execute(_FORGET_TOPIC)

        await self._database.statement(work, writes=True)
