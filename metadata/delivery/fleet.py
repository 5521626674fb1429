"""The live forwarders with their loads, and who owns what, for the scheduler and for operators."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from metadata.database import Connection, Database
from metadata.delivery.loads import Load, decode
from metadata.types import Unit

_LIVE = """
SELECT incarnation, role, address, weight, load::text,
    extract(epoch FROM clock_timestamp() - started_at)::float8 AS age_s,
    extract(epoch FROM lease_until - clock_timestamp())::float8 AS remaining_s
FROM forwarders
WHERE lease_until > clock_timestamp()
ORDER BY started_at, incarnation
"""
_OWNED = """
SELECT tenant_id, topic_uid, partition, subscription_uid, owner
FROM assignments
JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, topic_uid)
    USING (tenant_id, topic_uid)
"""
_NAMES = """
WITH wanted AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, uid)
)
SELECT uid, topics.name FROM topics JOIN wanted USING (tenant_id, uid)
UNION ALL
SELECT uid, subscriptions.name FROM subscriptions JOIN wanted USING (tenant_id, uid)
"""
TopicKey = tuple[bytes, bytes]
"""Tenant id and topic uid."""


@dataclass(frozen=True, slots=True)
class LiveForwarder:
    """A row of `forwarders` whose lease is not over."""

    incarnation: bytes
    role: str
    address: str
    weight: float
    load: Load | None
    """The last report of the forwarder, or None before the first."""
    age_s: float
    remaining_s: float
    """The time until its lease ends, unless it is renewed."""


class FleetRepository:
    """Reads only, one statement each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def live(self) -> list[LiveForwarder]:
        """Return the live forwarders, the oldest first."""

        async def work(connection: Connection) -> list[LiveForwarder]:
            rows = [dict(row) for row in await connection.fetch(_LIVE)]
            return [LiveForwarder(**row | {"load": decode(row["load"])}) for row in rows]

        return await self._database.statement(work, writes=False)

    async def owned(self, topics: Collection[TopicKey]) -> dict[Unit, bytes | None]:
        """Return every unit of these topics with its owner, dead or alive, or None."""
        ordered = sorted(topics)

        async def work(connection: Connection) -> dict[Unit, bytes | None]:
            columns = [key[0] for key in ordered], [key[1] for key in ordered]
            rows = await connection.fetch(_OWNED, *columns)
            return {Unit(*row[:4]): row[4] for row in rows}

        return await self._database.statement(work, writes=False)

    async def names(self, uids: Collection[tuple[bytes, bytes]]) -> dict[bytes, str]:
        """Return the names of topics and subscriptions, by tenant and uid; deleted ones are
        missing.
        """
        ordered = sorted(uids)

        async def work(connection: Connection) -> dict[bytes, str]:
            columns = [key[0] for key in ordered], [key[1] for key in ordered]
            rows = await connection.fetch(_NAMES, *columns)
            return {row["uid"]: row["name"] for row in rows}

        return await self._database.statement(work, writes=False) if ordered else {}
