"""Runs of exports: how they are created, and what their tenant may see and do.

A transaction that creates or ends a run has locked its export's row before, so it knows the live
runs, and numbers have no gaps.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from metadata.database import Connection, Database
from metadata.errors import BadPageToken, MetadataError, NotFound
from metadata.exports.notices import notify
from metadata.exports.rows import RUNS, ranges_text, run_of
from metadata.exports.run_machine import LockedRun
from metadata.exports.types import EXPORT, LIVE, MANUAL, QUEUED, LaneRange, Run
from metadata.ids import new_uid
from metadata.types import Page

MAX_LIVE = 100
"""Runs of one export that are not finished."""
MAX_ATTEMPTS = 5
MAX_LOG_BYTES = 256 * 1024
"""The limit for the log of a run; the end is kept."""

_EXPORT = "SELECT uid FROM exports WHERE tenant_id = $1 AND name = $2"
_LOCK = "SELECT uid, lake FROM exports WHERE tenant_id = $1 AND name = $2 FOR NO KEY UPDATE"
_LIVE = """
SELECT uid, kind, state, attempt FROM export_runs
WHERE tenant_id = $1 AND export_uid = $2 AND state IN ('queued', 'running')
ORDER BY number
"""
_NUMBER = """
UPDATE exports SET next_number = next_number + 1, runs = runs + 1
WHERE tenant_id = $1 AND uid = $2
RETURNING next_number - 1
"""
_INSERT = """
INSERT INTO export_runs (tenant_id, uid, export_uid, number, kind, trigger, state, scheduled_for,
    max_attempts, ready_at, ranges)
VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, clock_timestamp(), $9::jsonb)
"""
_OF_EXPORT = RUNS + "WHERE r.tenant_id = $1 AND e.name = $2"
_ONE = _OF_EXPORT + " AND r.number = $3"
_PAGE = _OF_EXPORT + " AND r.number < $3 ORDER BY r.number DESC LIMIT $4"
_BY_UID = RUNS + "WHERE r.tenant_id = $1 AND r.uid = $2"
_LOCK_RUN = """
SELECT uid, state, attempt, max_attempts, cancelling, lease,
    coalesce(lease_until > clock_timestamp(), false) AS held
FROM export_runs
WHERE tenant_id = $1 AND export_uid = $2 AND number = $3
FOR NO KEY UPDATE
"""
_CANCEL = """
UPDATE export_runs
SET state = $3, cancelling = $4, failure_code = $5, failure_message = $6,
    finished_at = CASE WHEN $3 = 'cancelled' THEN clock_timestamp() END
WHERE tenant_id = $1 AND uid = $2
"""
_READY = """
UPDATE export_runs SET ready_at = least(ready_at, clock_timestamp())
WHERE tenant_id = $1 AND uid = $2
"""
_LOG = """
SELECT r.log
FROM export_runs AS r JOIN exports AS e ON e.tenant_id = r.tenant_id AND e.uid = r.export_uid
WHERE r.tenant_id = $1 AND e.name = $2 AND r.number = $3
"""


class LiveRun(NamedTuple):
    """One that is not over."""

    uid: bytes
    kind: str
    state: str
    attempt: int


class NewRun(NamedTuple):
    """A new run of an export that the transaction has locked."""

    export_uid: bytes
    kind: str
    trigger: str
    scheduled_for: datetime | None = None
    ranges: Sequence[LaneRange] | None = None


class TooManyRuns(MetadataError):
    """The limit of waiting runs is reached."""

    code = "too_many_runs"


class ExportRunRepository:
    """Runs by the name of their export and their number, which grows from 1."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant_id: bytes,
        export: str,
        kind: str = EXPORT,
        ranges: Sequence[LaneRange] | None = None,
    ) -> tuple[Run, bool]:
        """Queue a run on demand; return it, and whether it is new.

        `ranges` are those of a backfill or a reconciliation. One run of the kind `export` waits at
        a time: an existing one is returned, and does not wait for its time any more. Raises
        NotFound and TooManyRuns.
        """

        async def work(connection: Connection) -> tuple[Run, bool]:
            row = await connection.fetchrow(_LOCK, tenant_id, export)
            if row is None:
                raise NotFound("export", export)
            runs = await live(connection, tenant_id, row["uid"])
            for each in runs:
                if kind == EXPORT and each.kind == kind and each.state == QUEUED:
                    await connection.execute(_READY, tenant_id, each.uid)
                    await notify(connection, row["lake"])
                    return run_of(await connection.fetchrow(_BY_UID, tenant_id, each.uid)), False
            if len(runs) >= MAX_LIVE:
                raise TooManyRuns(f"{MAX_LIVE} runs of the export wait")
            uid = await make(connection, tenant_id, NewRun(row["uid"], kind, MANUAL, None, ranges))
            await notify(connection, row["lake"])
            return run_of(await connection.fetchrow(_BY_UID, tenant_id, uid)), True

        return await self._database.of(tenant_id).transaction(work)

    async def get(self, tenant_id: bytes, export: str, number: int) -> Run:
        """Return a run; raises NotFound for the export or the run."""

        async def work(connection: Connection) -> Run:
            row = await connection.fetchrow(_ONE, tenant_id, export, number)
            if row is None:
                raise NotFound("run", f"{export}/{number}")
            return run_of(row)

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def page(
        self, tenant_id: bytes, export: str, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Run]:
        """List the runs, the newest first; raises NotFound for the export, and BadPageToken."""
        before = _before(page_token)

        async def work(connection: Connection) -> Page[Run]:
            if await connection.fetchval(_EXPORT, tenant_id, export) is None:
                raise NotFound("export", export)
            rows = await connection.fetch(_PAGE, tenant_id, export, before, page_size + 1)
            runs = tuple(run_of(row) for row in rows[:page_size])
            return Page(runs, _token(runs[-1].number) if len(rows) > page_size else None)

        return await self._database.of(tenant_id).transaction(work)

    async def cancel(self, tenant_id: bytes, export: str, number: int) -> Run:
        """Cancel a run: at once if it is queued; a runner hears of it at its next renewal.

        A finished run does not change. Raises NotFound for the export or the run.
        """

        async def work(connection: Connection) -> Run:
            found = await connection.fetchrow(_LOCK, tenant_id, export)
            if found is None:
                raise NotFound("export", export)
            row = await connection.fetchrow(_LOCK_RUN, tenant_id, found["uid"], number)
            if row is None:
                raise NotFound("run", f"{export}/{number}")
            if row["state"] in LIVE:
                line = LockedRun(*row[1:])
                line.cancel()
                failure = line.failure or (None, None)
                await connection.execute(
                    _CANCEL, tenant_id, row["uid"], line.state, line.cancelling, *failure
                )
                await notify(connection, found["lake"])
            return run_of(await connection.fetchrow(_BY_UID, tenant_id, row["uid"]))

        return await self._database.of(tenant_id).transaction(work)

    async def log(self, tenant_id: bytes, export: str, number: int) -> str:
        """Return the end of the log of its attempts; raises NotFound for the export or the run."""

        async def work(connection: Connection) -> str:
            log = await connection.fetchval(_LOG, tenant_id, export, number)
            if log is None:
                raise NotFound("run", f"{export}/{number}")
            # The cut may be within a character.
            return bytes(log).decode(errors="replace")

        return await self._database.of(tenant_id).statement(work, writes=False)


async def live(connection: Connection, tenant_id: bytes, export_uid: bytes) -> list[LiveRun]:
    """Return the runs that are not over of an export that the transaction has locked, by number."""
    return [LiveRun(*row) for row in await connection.fetch(_LIVE, tenant_id, export_uid)]


async def make(connection: Connection, tenant_id: bytes, new: NewRun) -> bytes:
    """Queues it, with the next number of its export; its uid. The caller rings."""
    uid = new_uid()
    number = await connection.fetchval(_NUMBER, tenant_id, new.export_uid)
    ranges = None if new.ranges is None else ranges_text(new.ranges)
    await connection.execute(
        *(_INSERT, tenant_id, uid, new.export_uid, number, new.kind, new.trigger),
        *(new.scheduled_for, MAX_ATTEMPTS, ranges),
    )
    return uid


_NEWEST = 2**63 - 1


def _before(page_token: str | None) -> int:
    if page_token is None:
        return _NEWEST
    try:
        number = int(urlsafe_b64decode(page_token.encode("ascii")))
    except (binascii.Error, UnicodeError, ValueError) as error:
        raise BadPageToken("the page token is not one of ours") from error
    if not 0 <= number <= _NEWEST:
        raise BadPageToken("the page token is not one of ours")
    return number


def _token(number: int) -> str:
    return urlsafe_b64encode(str(number).encode()).decode()
