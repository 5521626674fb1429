"""The schedules of exports: which ticks have come, and the runs they make, each tick's once.

A tick is what an export's row says comes next. The transaction that makes its run moves the row on
from the tick that was seen, under the row's lock: any other process that saw the tick finds it
moved, whatever its clock. Time is Postgres' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.exports.notices import notify
from metadata.exports.run_machine import MAX_MESSAGE_CHARS, Tick, tick
from metadata.exports.runs import MAX_LIVE, NewRun, live, make
from metadata.exports.types import EXPORT, MAINTENANCE, SCHEDULE


class DueExport(NamedTuple):
    """A schedule of an export whose tick `at` has come: of its runs of that kind. `now` is
    Postgres' clock."""

    tenant_id: bytes
    uid: bytes
    name: str
    kind: str
    cron: str
    time_zone: str
    missed_runs: str
    at: datetime
    now: datetime


class Ticks(NamedTuple):
    """The decision on ticks that have come: a run for the last of `make`, if any; `missed`
    are passed over; `then` is the next tick, if any.
    """

    make: Sequence[datetime]
    missed: int
    then: datetime | None


# A late run of maintenance is as good as one in time, so of those only the latest is made.
DUE_TICKS = """
    SELECT tenant_id, uid, name, 'export' AS kind, cron, time_zone, missed_runs, next_at AS at
    FROM exports
    WHERE NOT paused AND cron IS NOT NULL AND next_at <= clock_timestamp()
    UNION ALL
    SELECT tenant_id, uid, name, 'maintain', maintain_cron, time_zone, 'latest', maintain_next_at
    FROM exports
    WHERE NOT paused AND maintain_cron IS NOT NULL AND maintain_next_at <= clock_timestamp()
"""
_DUE = (
    """
SELECT s.tenant_id, s.uid, s.name, s.kind, s.cron, s.time_zone, s.missed_runs, s.at,
    clock_timestamp() AS now
FROM ("""
    + DUE_TICKS
    + """) AS s
JOIN tenants AS t ON t.tenant_id = s.tenant_id AND t.state = 'active'
WHERE NOT (s.uid = ANY ($2::uuid[]))
ORDER BY s.at
LIMIT $1
"""
)
_LOCK = """
SELECT lake FROM exports
WHERE tenant_id = $1 AND uid = $2 AND NOT paused AND time_zone = $5
  AND CASE WHEN $3 = 'export' THEN next_at ELSE maintain_next_at END = $4
  AND CASE WHEN $3 = 'export' THEN cron ELSE maintain_cron END = $6
FOR NO KEY UPDATE
"""
_MADE = """
SELECT FROM export_runs
WHERE tenant_id = $1 AND export_uid = $2 AND kind = $3 AND scheduled_for = $4
"""
_MOVE = """
UPDATE exports
SET next_at = CASE WHEN $3 = 'export' THEN $4::timestamptz ELSE next_at END,
    maintain_next_at = CASE WHEN $3 = 'export' THEN maintain_next_at ELSE $4::timestamptz END,
    missed = missed + $5, coalesced = coalesced + $6
WHERE tenant_id = $1 AND uid = $2
"""
_FAILED = """
UPDATE exports SET failure_code = 'schedule-failed', failure_message = $3
WHERE tenant_id = $1 AND uid = $2
"""


class ExportTickRepository:
    """Makes runs for the schedules of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, limit: int, besides: Sequence[bytes] = ()) -> list[DueExport]:
        """Return exports whose ticks have come, the first tick first, without these uids."""

        async def work(connection: Connection) -> list[DueExport]:
            rows = await connection.fetch(_DUE, limit, list(besides))
            return [DueExport(*row) for row in rows]

        return await self._database.statement(work, writes=False)

    async def make(self, due: DueExport, what: Ticks) -> Tick | None:
        """Make the run of a tick; return None if another process did, or if the schedule
        has changed.
        """

        async def work(connection: Connection) -> Tick | None:
            key = (due.tenant_id, due.uid)
            clock = (due.kind, due.at, due.time_zone, due.cron)
            row = await connection.fetchrow(_LOCK, *key, *clock)
            if row is None:
                return None
            runs = await live(connection, *key)
            kinds = {run.kind for run in runs}
            if len(runs) >= MAX_LIVE:
                kinds.add(due.kind)
            made = tick(what.make, what.missed, due.kind, kinds)
            if made.make is not None and await self._was_made(connection, due, made.make):
                made = Tick(None, 0, 0)
            if made.make is not None:
                trigger = SCHEDULE if due.kind == EXPORT else MAINTENANCE
                await make(connection, due.tenant_id, NewRun(due.uid, due.kind, trigger, made.make))
                await notify(connection, row["lake"])
            counts = (made.missed, made.coalesced)
            await connection.execute(_MOVE, *key, due.kind, what.then, *counts)
            return made

        return await self._database.of(due.tenant_id).transaction(work)

    async def failed(self, due: DueExport, why: str) -> None:
        """Notes why its ticks make no runs now; they stay due."""

        async def work(connection: Connection) -> None:
            text = why[:MAX_MESSAGE_CHARS].replace("\0", "")
            await connection.execute(_FAILED, due.tenant_id, due.uid, text)

        await self._database.of(due.tenant_id).transaction(work)

    async def _was_made(self, connection: Connection, due: DueExport, at: datetime) -> bool:
        """Return whether the run of a tick exists: a change of the schedule may come to the same
        tick again.
        """
        key = (due.tenant_id, due.uid, due.kind, at)
        return await connection.fetchrow(_MADE, *key) is not None
