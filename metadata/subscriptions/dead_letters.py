"""Lists dead letters, which the flush that settles their message makes.

A dead letter is open until it is redriven or discarded, once and for good. They are listed in the
order in which they were made: by time, and by uid among those of one flush.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from metadata.database import Connection, Database
from metadata.errors import NotFound
from openapi.dead_letters import Reason, State

KEPT_DAYS = 30
"""Days for which a dead letter stays listed after its redrive or discard."""
PRUNE_AT_ONCE = 5000

COLUMNS = """
    uid, generation, partition, lane, message_offset, message_id, key, attributes::text,
    content_type, size_bytes, reason, detail, attempts, first_at, last_at, publish_time, dead_at,
    letter_topic_uid, letter_partition, letter_lane, letter_offset, state, redrive_uid
"""
_PAGE = (
    "SELECT"
    + COLUMNS
    + """
    FROM dead_letters
    WHERE tenant_id = $1 AND subscription_uid = $2 AND state = $3 AND (dead_at, uid) > ($4, $5)
    ORDER BY dead_at, uid LIMIT $6
    """
)
_GET = (
    "SELECT"
    + COLUMNS
    + "FROM dead_letters WHERE tenant_id = $1 AND subscription_uid = $2 AND uid = ANY($3::uuid[])"
    + " ORDER BY dead_at, uid"
)
_COUNT = """
SELECT count(*) FROM dead_letters
WHERE tenant_id = $1 AND subscription_uid = $2 AND state = 'open'
"""
_DISCARD = """
WITH discarded AS (
    UPDATE dead_letters SET state = 'discarded'
    WHERE tenant_id = $1 AND subscription_uid = $2 AND uid = ANY($3::uuid[]) AND state = 'open'
    RETURNING 1
)
SELECT count(*) FROM discarded
"""
# Only details that the dead-letter writer wrote count (outbox/dead_letter.py).
_WAITING = """
SELECT count(*), min(detail) FILTER (WHERE detail LIKE 'no dead letter yet: %') FROM deliveries
WHERE tenant_id = $1 AND subscription_uid = $2 AND reason IN ('exhausted', 'rejected')
"""
_UNDELIVERED = """
SELECT DISTINCT subscriptions.tenant_id, subscriptions.name
FROM deliveries
JOIN subscriptions ON subscriptions.tenant_id = deliveries.tenant_id
    AND subscriptions.uid = deliveries.subscription_uid
WHERE deliveries.reason IN ('exhausted', 'rejected')
LIMIT $1
"""
_PRUNE = """
DELETE FROM dead_letters WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM dead_letters
    WHERE state <> 'open' AND dead_at < now() - make_interval(days => $1) LIMIT $2
))
"""


class DeadLetterPosition(NamedTuple):
    """The place where a listing continues: behind this dead letter."""

    dead_at: datetime
    uid: bytes


class Waiting(NamedTuple):
    """Exhausted and rejected messages that have no dead letter yet; the detail of one of them."""

    messages: int
    detail: str | None


START = DeadLetterPosition(datetime(1970, 1, 1, tzinfo=UTC), bytes(16))


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A row of `dead_letters`: where the message came from, why it is here, where its body is."""

    uid: bytes
    generation: int
    partition: int
    lane: int
    offset: int
    message_id: str
    key: str | None
    attributes: Mapping[str, str]
    content_type: str | None
    size_bytes: int
    reason: Reason
    detail: str | None
    attempts: int
    first_at: datetime | None
    last_at: datetime | None
    publish_time: datetime
    dead_at: datetime
    letter_topic_uid: bytes
    letter_partition: int
    letter_lane: int
    letter_offset: int
    state: State
    redrive_uid: bytes | None

    @property
    def place(self) -> DeadLetterPosition:
        return DeadLetterPosition(self.dead_at, self.uid)


class DeadLetterRepository:
    """Reads and writes `dead_letters`, of one subscription at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        tenant_id: bytes,
        subscription_uid: bytes,
        *,
        state: State = "open",
        after: DeadLetterPosition = START,
        limit: int,
    ) -> list[StoredDeadLetter]:
        """Return at most `limit` dead letters, oldest first; fewer are the last."""

        async def work(connection: Connection) -> list[StoredDeadLetter]:
            rows = await connection.fetch(_PAGE, tenant_id, subscription_uid, state, *after, limit)
            return [dead_letter_of(row) for row in rows]

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def get(self, tenant_id: bytes, subscription_uid: bytes, uid: bytes) -> StoredDeadLetter:
        """Return the dead letter. Raises NotFound."""
        found = await self.several(tenant_id, subscription_uid, [uid])
        if not found:
            raise NotFound("dead letter", uid.hex())
        return found[0]

    async def several(
        self, tenant_id: bytes, subscription_uid: bytes, uids: Sequence[bytes]
    ) -> list[StoredDeadLetter]:
        """Return the existing ones of these dead letters, in any state, oldest first."""

        async def work(connection: Connection) -> list[StoredDeadLetter]:
            rows = await connection.fetch(_GET, tenant_id, subscription_uid, list(uids))
            return [dead_letter_of(row) for row in rows]

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def open_count(self, tenant_id: bytes, subscription_uid: bytes) -> int:
        async def work(connection: Connection) -> int:
            count: int = await connection.fetchval(_COUNT, tenant_id, subscription_uid)
            return count

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def waiting(self, tenant_id: bytes, subscription_uid: bytes) -> Waiting:
        async def work(connection: Connection) -> Waiting:
            return Waiting(*await connection.fetchrow(_WAITING, tenant_id, subscription_uid))

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def undelivered(self, limit: int) -> list[tuple[bytes, str]]:
        """Return the subscriptions of all tenants that have undelivered dead letters:
        tenant and name.
        """

        async def work(connection: Connection) -> list[tuple[bytes, str]]:
            return [(row[0], row[1]) for row in await connection.fetch(_UNDELIVERED, limit)]

        return await self._database.statement(work, writes=False)

    async def discard(
        self, tenant_id: bytes, subscription_uid: bytes, uids: Sequence[bytes]
    ) -> int:
        """Discard dead letters; return the number of those that were open."""

        async def work(connection: Connection) -> int:
            count: int = await connection.fetchval(
                _DISCARD, tenant_id, subscription_uid, list(uids)
            )
            return count

        return await self._database.of(tenant_id).statement(work, writes=True)

    async def prune(self) -> None:
        """Delete some dead letters of all tenants that were redriven or discarded
        `KEPT_DAYS` ago.
        """

        async def work(connection: Connection) -> None:
            await connection.execute(_PRUNE, KEPT_DAYS, PRUNE_AT_ONCE)

        await self._database.statement(work, writes=True)


def dead_letter_of(row: Any) -> StoredDeadLetter:
    values = list(row)
    values[7] = msgspec.json.decode(values[7], type=dict[str, str])
    return StoredDeadLetter(*values)
