"""Keeps the holds of a partition's history besides cursors: snapshots and export holds.

Creating a pin, or moving one back, locks the partition's rows as the truncator does and goes no
lower than the trimmed offset; moving one forward or dropping it takes no lock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime

from metadata.database import Connection, Database
from metadata.errors import NotFound

_TRIMMED = """
SELECT trimmed_to FROM partitions
WHERE tenant_id = $1 AND topic_uid = $2 AND partition = $3 AND lane = $4
ORDER BY generation
FOR SHARE
"""
_PUT = """
INSERT INTO pins
    (tenant_id, topic_uid, partition, lane, holder, kind, pinned_offset, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant_id, topic_uid, partition, lane, holder)
DO UPDATE SET pinned_offset = EXCLUDED.pinned_offset, expires_at = EXCLUDED.expires_at
"""
_DROP = "DELETE FROM pins WHERE tenant_id = $1 AND topic_uid = $2 AND holder = $3"


class PinKind(enum.Enum):
    SNAPSHOT = "snapshot"
    EXPORT = "export"


class PinRepository:
    """Reads and writes `pins`, by their holder's uid."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(
        self,
        tenant_id: bytes,
        topic_uid: bytes,
        holder: bytes,
        kind: PinKind,
        offsets: Mapping[tuple[int, int], int],
        *,
        expires_at: datetime | None = None,
    ) -> dict[tuple[int, int], int]:
        """Pin each (partition, lane) from its offset on, or from the first offset that isn't
        trimmed.

        Returns the pinned offsets. Raises NotFound when a partition isn't there.
        """

        async def work(connection: Connection) -> dict[tuple[int, int], int]:
            pinned = {}
            for (partition, lane), offset in sorted(offsets.items()):
                key = (tenant_id, topic_uid, partition, lane)
                rows = await connection.fetch(_TRIMMED, *key)
                if not rows:
                    raise NotFound("partition", str(partition))
                at = max(offset, *(row["trimmed_to"] for row in rows))
                await connection.execute(_PUT, *key, holder, kind.value, at, expires_at)
                pinned[partition, lane] = at
            return pinned

        return await self._database.of(tenant_id).transaction(work)

    async def drop(self, tenant_id: bytes, topic_uid: bytes, holder: bytes) -> None:
        """Drop the pins of a holder. Idempotent."""

        async def work(connection: Connection) -> None:
            await connection.execute(_DROP, tenant_id, topic_uid, holder)

        await self._database.of(tenant_id).statement(work, writes=True)
