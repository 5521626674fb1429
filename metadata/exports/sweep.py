"""The effects of time on runs of exports: leases that end, and runs whose time is over.

Any process may do any of them at any time; the scheduler does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.exports.leases import lock_run, note_failure, run_line, write_end
from metadata.exports.notices import notify
from metadata.exports.ticks import DUE_TICKS
from metadata.exports.types import RunId
from metadata.topics.retention import LaneKey

KEPT_RUNS = 200
"""A finished run goes when this number of runs came after it, or when its time is over.

The latest run of an export stays.
"""

_EXPIRED_RUNS = "FROM export_runs WHERE state = 'running' AND lease_until <= clock_timestamp()"
_EXPIRED = "SELECT tenant_id, uid " + _EXPIRED_RUNS + " ORDER BY lease_until LIMIT $1"
_DUE = "SELECT EXISTS (SELECT " + _EXPIRED_RUNS + ") OR EXISTS (" + DUE_TICKS + ")"
_LAKE = "SELECT lake FROM exports WHERE tenant_id = $1 AND uid = $2"
_PRUNE = """
WITH old AS MATERIALIZED (
    SELECT r.tenant_id, r.uid
    FROM export_runs AS r
    JOIN exports AS e ON e.tenant_id = r.tenant_id AND e.uid = r.export_uid
    WHERE r.state IN ('succeeded', 'failed', 'cancelled') AND r.number < e.next_number - 1
      AND (
        r.number < e.next_number - $3
        OR r.finished_at < clock_timestamp() - make_interval(secs => $1::float8)
      )
    LIMIT $2
    FOR UPDATE OF r SKIP LOCKED
)
DELETE FROM export_runs AS r USING old WHERE r.tenant_id = old.tenant_id AND r.uid = old.uid
"""
_LOAD = """
SELECT
    (SELECT count(*) FROM export_runs WHERE state = 'queued') AS queued,
    (SELECT count(*) FROM export_runs WHERE state = 'running') AS running,
    (
        SELECT coalesce(extract(epoch FROM clock_timestamp() - min(ready_at)), 0)::float8
        FROM export_runs WHERE state = 'queued' AND ready_at <= clock_timestamp()
    ) AS waited_s,
    (
        SELECT coalesce(sum(greatest(0, lane_end - reached)), 0)::bigint FROM export_positions
    ) AS lag
"""
_LANES = "SELECT DISTINCT tenant_id, topic_uid, partition, lane FROM export_positions"
# Past rows that a run is changing, whose order of locks is another.
_NOTE_ENDS = """
WITH behind AS (
    SELECT x.tenant_id, x.export_uid, x.topic_uid, x.partition, x.lane, now.lane_end
    FROM export_positions AS x
    JOIN unnest($1::uuid[], $2::uuid[], $3::integer[], $4::smallint[], $5::bigint[])
        AS now (tenant_id, topic_uid, partition, lane, lane_end)
        USING (tenant_id, topic_uid, partition, lane)
    WHERE x.lane_end IS NULL OR x.lane_end < now.lane_end
    FOR NO KEY UPDATE OF x SKIP LOCKED
)
UPDATE export_positions AS x SET lane_end = behind.lane_end
FROM behind
WHERE x.tenant_id = behind.tenant_id AND x.export_uid = behind.export_uid
  AND x.topic_uid = behind.topic_uid AND x.partition = behind.partition AND x.lane = behind.lane
"""


class Load(NamedTuple):
    """The load of all tenants: runs, the longest wait of a run that may be claimed, and
    messages that are not exported yet.
    """

    queued: int
    running: int
    waited_s: float
    lag: int


class ExportSweepRepository:
    """Sweeps runs of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self) -> bool:
        """Return whether a lease of a run is over, or a tick of a schedule has come."""

        async def work(connection: Connection) -> bool:
            return bool(await connection.fetchval(_DUE))

        return await self._database.statement(work, writes=False)

    async def expired(self, limit: int) -> list[RunId]:
        """Return runs whose leases are over; the first to end comes first."""

        async def work(connection: Connection) -> list[RunId]:
            return [RunId(*row) for row in await connection.fetch(_EXPIRED, limit)]

        return await self._database.statement(work, writes=False)

    async def expire(self, run_id: RunId) -> str | None:
        """Take the run from a holder whose lease is over; return its new state.

        Returns None if the lease holds, or the run is over or gone.
        """

        async def work(connection: Connection) -> str | None:
            row = await lock_run(connection, run_id)
            if row is None:
                return None
            line = run_line(row)
            line.expire()
            if line.state == row["state"]:
                return None
            await write_end(connection, run_id, line)
            await note_failure(connection, run_id, row, line)
            key = (run_id.tenant_id, row["export_uid"])
            await notify(connection, await connection.fetchval(_LAKE, *key))
            return line.state

        return await self._database.of(run_id.tenant_id).transaction(work)

    async def prune(self, older_than_s: float, limit: int) -> int:
        """Deletes finished runs that were kept for long enough; how many."""

        async def work(connection: Connection) -> int:
            status: str = await connection.execute(_PRUNE, older_than_s, limit, KEPT_RUNS)
            return int(status.rpartition(" ")[2])

        return await self._database.statement(work, writes=True)

    async def load(self) -> Load:
        """Return the present load."""

        async def work(connection: Connection) -> Load:
            return Load(*await connection.fetchrow(_LOAD))

        return await self._database.statement(work, writes=False)

    async def lanes(self) -> list[LaneKey]:
        """Return the lanes of all exports."""

        async def work(connection: Connection) -> list[LaneKey]:
            return [LaneKey(*row) for row in await connection.fetch(_LANES)]

        return await self._database.statement(work, writes=False)

    async def note_ends(self, ends: Iterable[tuple[LaneKey, int]]) -> None:
        """Note the next offsets of these lanes, unless a later offset is noted."""
        rows = [(*key, end) for key, end in ends]

        async def work(connection: Connection) -> None:
            await connection.execute(_NOTE_ENDS, *map(list, zip(*rows, strict=True)))

        if rows:
            await self._database.statement(work, writes=True)
