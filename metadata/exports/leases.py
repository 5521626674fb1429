"""Runs of exports, as runners hold them: claim, plan, renew, finish.

A claim takes a queued run whose time has come and before which no run of its export is live: runs
below it are never live again once they are over, so what a claim has seen of them holds. It goes
past rows that another claim has at this moment.

A lease that is over holds nothing, whether another has the run by then or not: it is never renewed,
plans nothing and finishes nothing. Time is Postgres' own.

Transactions lock the export's row, then its run, then lanes and their pins, those in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from metadata.database import Connection, Database
from metadata.errors import LeaseLost
from metadata.exports import pins as export_pins
from metadata.exports.manifest import LaneFacts, is_there, manifest
from metadata.exports.notices import notify
from metadata.exports.pins import LaneOf
from metadata.exports.rows import (
    SPECS,
    json_or_none,
    positions_of,
    positions_text,
    ranges_of,
    ranges_text,
    spec_of,
)
from metadata.exports.run_machine import LockedRun, is_behind, more_follows
from metadata.exports.runs import MAX_LOG_BYTES, NewRun, live, make
from metadata.exports.types import (
    EXPORT,
    SUCCEEDED,
    ClaimedRun,
    Ending,
    ExportSpec,
    Lane,
    LaneEnd,
    LanePosition,
    LaneRange,
    RunId,
    RunProgress,
    RunResult,
)

TABLE_KEEPS_POSITIONS = "iceberg"
"""The format of tables that know how far they are."""
_NO_RESULT = RunResult()

_CLAIMABLE = """
    FROM export_runs AS q
    JOIN exports AS e ON e.tenant_id = q.tenant_id AND e.uid = q.export_uid
    JOIN tenants AS t ON t.tenant_id = q.tenant_id AND t.state = 'active'
    WHERE q.state = 'queued' AND q.ready_at <= clock_timestamp() AND e.lake = ANY ($1::text[])
      AND NOT EXISTS (
        SELECT FROM export_runs AS before
        WHERE before.tenant_id = q.tenant_id AND before.export_uid = q.export_uid
          AND before.number < q.number AND before.state IN ('queued', 'running')
      )
"""
_LAKES = "SELECT DISTINCT e.lake" + _CLAIMABLE
# Materialized: within a join the choice may be made again for each row, and take several.
_CLAIM = (
    """
WITH next AS MATERIALIZED (
    SELECT q.tenant_id, q.uid, t.name AS tenant
"""
    + _CLAIMABLE
    + """
    ORDER BY (
        SELECT count(*) FROM export_runs AS others
        WHERE others.tenant_id = q.tenant_id AND others.state = 'running'
    ), q.ready_at, q.uid
    LIMIT 1
    FOR NO KEY UPDATE OF q SKIP LOCKED
)
UPDATE export_runs AS r
SET state = 'running', attempt = r.attempt + 1, lease = gen_random_uuid(),
    lease_until = clock_timestamp() + make_interval(secs => $2::float8), runner = $3,
    started_at = coalesce(r.started_at, clock_timestamp()), progress = NULL
FROM next
WHERE r.tenant_id = next.tenant_id AND r.uid = next.uid
RETURNING r.tenant_id, r.uid, r.export_uid, r.number, r.kind, r.attempt, r.ranges::text AS ranges,
    r.lease, r.lease_until, next.tenant
"""
)
_SPEC = SPECS + "WHERE e.tenant_id = $1 AND e.uid = $2"
_LOCK_EXPORT = """
SELECT FROM exports
WHERE tenant_id = $1 AND uid = (
    SELECT export_uid FROM export_runs WHERE tenant_id = $1 AND uid = $2
)
FOR NO KEY UPDATE
"""
_RUN = """
SELECT export_uid, number, kind, trigger, state, attempt, max_attempts, cancelling, lease,
    coalesce(lease_until > clock_timestamp(), false) AS held,
    ranges::text AS ranges, planned_from::text AS planned_from, more
FROM export_runs
WHERE tenant_id = $1 AND uid = $2
"""
_LOCK_RUN = _RUN + "FOR NO KEY UPDATE"
_PLANNED = """
UPDATE export_runs SET ranges = $3::jsonb, planned_from = $4::jsonb, more = $5
WHERE tenant_id = $1 AND uid = $2
"""
_KNOWN = """
SELECT topic_uid, partition, lane, begins, reached FROM export_positions
WHERE tenant_id = $1 AND export_uid = $2
"""
_REACH = """
UPDATE export_positions AS x
SET reached = greatest(x.begins, now.reached), lane_end = coalesce(now.lane_end, x.lane_end)
FROM unnest($3::uuid[], $4::integer[], $5::smallint[], $6::bigint[], $7::bigint[])
    AS now (topic_uid, partition, lane, reached, lane_end)
WHERE x.tenant_id = $1 AND x.export_uid = $2 AND x.topic_uid = now.topic_uid
  AND x.partition = now.partition AND x.lane = now.lane
"""
_RENEW = """
UPDATE export_runs AS r
SET lease_until = clock_timestamp() + make_interval(secs => $4::float8),
    progress = coalesce($5::jsonb, r.progress),
    log = CASE WHEN $6::bytea = '' THEN r.log
        ELSE substr(r.log || $6, greatest(1, length(r.log || $6) - $7::integer + 1)) END
FROM tenants AS t
WHERE r.tenant_id = $1 AND r.uid = $2 AND r.lease = $3 AND r.state = 'running'
  AND r.lease_until > clock_timestamp() AND t.tenant_id = r.tenant_id
RETURNING r.export_uid, r.attempt, r.lease_until, r.cancelling OR t.state <> 'active' AS cancelled
"""
_FINISH = """
UPDATE export_runs
SET state = $3, attempt = $8, lease = $9, lease_until = NULL, failure_code = $4,
    failure_message = $5, result = $6::jsonb,
    ready_at = clock_timestamp() + make_interval(secs => $7::float8),
    finished_at = CASE WHEN $3 <> 'queued' THEN clock_timestamp() END
WHERE tenant_id = $1 AND uid = $2
"""
_SUM = """
UPDATE exports
SET row_count = row_count + $3, rejected = rejected + $4, filtered = filtered + $5,
    byte_count = byte_count + $6
WHERE tenant_id = $1 AND uid = $2
"""
_EXPIRED = "UPDATE exports SET expired = expired + $3 WHERE tenant_id = $1 AND uid = $2"
_WELL = """
UPDATE exports
SET table_state = coalesce($3::jsonb, table_state),
    rejects_state = coalesce($4::jsonb, rejects_state),
    failure_code = NULL, failure_message = NULL
WHERE tenant_id = $1 AND uid = $2
"""
_CATCH_UP = """
UPDATE exports SET next_number = greatest(next_number, $3 + 1) WHERE tenant_id = $1 AND uid = $2
"""
_FAILING = """
UPDATE exports SET failure_code = $3, failure_message = $4 WHERE tenant_id = $1 AND uid = $2
"""


@dataclass(frozen=True, slots=True)
class Held:
    """The run and the export of a lease, for serving its holder."""

    spec: ExportSpec
    kind: str
    number: int
    ranges: tuple[LaneRange, ...] | None


class Renewed(NamedTuple):
    """`cancelled`: commit nothing more, and finish. `spec` as it is now."""

    lease_until: datetime
    cancelled: bool
    spec: ExportSpec
    attempt: int


class Finished(NamedTuple):
    """`state` of the run from now on: `queued` where another attempt follows. `attempt` is the one
    that ended."""

    state: str
    kind: str
    spec: ExportSpec
    attempt: int


class ExportLeaseRepository:
    """Leases are 16 bytes that each claim makes anew."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, lakes: Sequence[str], runner: str, lease_s: float) -> ClaimedRun | None:
        """Claim a queued run of an active tenant's export to one of these lakes, or return None.

        Tenants with fewer running runs come first, then the run that has waited longest.
        """

        async def work(connection: Connection) -> ClaimedRun | None:
            row = await connection.fetchrow(_CLAIM, list(lakes), lease_s, runner)
            if row is None:
                return None
            spec = await connection.fetchrow(_SPEC, row["tenant_id"], row["export_uid"])
            return ClaimedRun(
                id=RunId(row["tenant_id"], row["uid"]),
                lease=row["lease"],
                lease_until=row["lease_until"],
                tenant=row["tenant"],
                spec=spec_of(spec),
                number=row["number"],
                kind=row["kind"],
                attempt=row["attempt"],
                ranges=ranges_of(row["ranges"]),
            )

        return await self._database.transaction(work)

    async def claimable(self, lakes: Sequence[str]) -> list[str]:
        """Return those lakes for which `claim` may find a run now."""

        async def work(connection: Connection) -> list[str]:
            return [row["lake"] for row in await connection.fetch(_LAKES, list(lakes))]

        return await self._database.statement(work, writes=False)

    async def release(self, run_id: RunId, lease: bytes) -> None:
        """Queue a run again as if nobody had claimed it, because no runner was told of it. Does
        nothing if the lease is lost.
        """

        async def work(connection: Connection) -> None:
            row = await lock_run(connection, run_id)
            if row is None or not (line := run_line(row)).holds(lease):
                return
            line.release()
            await write_end(connection, run_id, line)
            spec = await _spec(connection, run_id, row)
            await notify(connection, spec.lake)

        await self._database.of(run_id.tenant_id).transaction(work)

    async def held(self, run_id: RunId, lease: bytes) -> Held:
        """Return what a lease holds; raises LeaseLost."""

        async def work(connection: Connection) -> Held:
            row = await connection.fetchrow(_RUN, *run_id)
            if row is None or not run_line(row).holds(lease):
                raise LeaseLost(_LOST)
            spec = await _spec(connection, run_id, row)
            return Held(spec, row["kind"], row["number"], ranges_of(row["ranges"]))

        return await self._database.of(run_id.tenant_id).transaction(work)

    async def plan(
        self,
        run_id: RunId,
        lease: bytes,
        positions: Sequence[LanePosition],
        ends: Sequence[LaneEnd],
        max_messages: int,
    ) -> tuple[LaneRange, ...]:
        """Set the manifest of a run and return it.

        It goes from `positions` (of the table) to `ends` (of the present lanes), with at most
        `max_messages` in all. The same positions give the same manifest again, as long as its
        messages exist. A run with ranges of its own keeps these; a run that reads nothing has none.
        Raises LeaseLost.
        """

        async def work(connection: Connection) -> tuple[LaneRange, ...]:
            row = await lock_run(connection, run_id)
            if row is None or not run_line(row).holds(lease):
                raise LeaseLost(_LOST)
            fixed = ranges_of(row["ranges"])
            if row["kind"] != EXPORT:
                return fixed or ()
            spec = await _spec(connection, run_id, row)
            planning = _Planning(connection, run_id.tenant_id, row["export_uid"])
            lanes = await planning.look(spec, positions, ends)
            planned_from = tuple(sorted(positions))
            same = positions_of(row["planned_from"]) == planned_from
            if fixed is not None and same and is_there(fixed, lanes):
                return fixed
            made = manifest(lanes, max_messages)
            written = (ranges_text(made.ranges), positions_text(planned_from))
            await connection.execute(_PLANNED, *run_id, *written, made.more)
            await planning.note(lanes)
            return made.ranges

        return await self._database.of(run_id.tenant_id).transaction(work)

    async def renew(
        self,
        run_id: RunId,
        lease: bytes,
        lease_s: float,
        progress: RunProgress | None = None,
        log: bytes = b"",
    ) -> Renewed:
        """Renew a lease for `lease_s` from now on and append `log` to the run's log; raises
        LeaseLost.
        """
        added = (json_or_none(progress), log[-MAX_LOG_BYTES:], MAX_LOG_BYTES)

        async def work(connection: Connection) -> Renewed:
            row = await connection.fetchrow(_RENEW, *run_id, lease, lease_s, *added)
            if row is None:
                raise LeaseLost(_LOST)
            spec = await _spec(connection, run_id, row)
            return Renewed(row["lease_until"], row["cancelled"], spec, row["attempt"])

        return await self._database.of(run_id.tenant_id).transaction(work)

    async def finish(self, run_id: RunId, lease: bytes, ending: Ending) -> Finished:
        """Ends the run, or queues it for another attempt. Again under the same lease it changes
        nothing, and answers as before. LeaseLost."""

        async def work(connection: Connection) -> Finished:
            row = await lock_run(connection, run_id)
            if row is None:
                raise LeaseLost(_LOST)
            line = run_line(row)
            spec = await _spec(connection, run_id, row)
            if line.finished_by(lease):
                return Finished(line.state, row["kind"], spec, line.attempt)
            if not line.holds(lease):
                raise LeaseLost(_LOST)
            line.finish(ending)
            await write_end(connection, run_id, line, ending.result)
            # Plain files have the planned messages, so only the run itself tells their positions.
            keeps = spec.format == TABLE_KEEPS_POSITIONS
            said = ending if keeps else replace(ending, positions=None)
            await _note_end(connection, run_id, row, line, said)
            await notify(connection, spec.lake)
            return Finished(line.state, row["kind"], spec, line.attempt)

        return await self._database.of(run_id.tenant_id).transaction(work)


_LOST = "the lease of the run is over"


async def write_end(
    connection: Connection, run_id: RunId, line: LockedRun, result: RunResult | None = None
) -> None:
    """Write the end of a running run whose row is locked."""
    failure = line.failure or (None, None)
    await connection.execute(
        *(_FINISH, *run_id, line.state, *failure, json_or_none(result), line.delay_s),
        *(line.attempt, line.lease),
    )


async def note_failure(connection: Connection, run_id: RunId, row: Any, line: LockedRun) -> None:
    """Note a failure on the export of a run that has failed for good."""
    if line.state == "failed" and line.failure is not None:
        key = (run_id.tenant_id, row["export_uid"])
        await connection.execute(_FAILING, *key, *line.failure)


async def _note_end(
    connection: Connection, run_id: RunId, row: Any, line: LockedRun, ending: Ending
) -> None:
    """Note the result on the export and its positions, and queue the run that follows."""
    tenant_id, export_uid, kind = run_id.tenant_id, row["export_uid"], row["kind"]
    if line.state != SUCCEEDED:
        await note_failure(connection, run_id, row, line)
        return
    result = ending.result or _NO_RESULT
    states = (json_or_none(result.table), json_or_none(result.rejects))
    await connection.execute(_WELL, tenant_id, export_uid, *states)
    behind = is_behind(row["number"], line.attempt, result)
    if behind:
        await connection.execute(_CATCH_UP, tenant_id, export_uid, result.last_run)
    else:
        await _note_success(connection, run_id, row, result, ending.positions)
    others = {each.kind for each in await live(connection, tenant_id, export_uid)}
    if more_follows(kind, line.state, row["more"] or behind, others):
        await make(connection, tenant_id, NewRun(export_uid, EXPORT, row["trigger"]))


async def _note_success(
    connection: Connection,
    run_id: RunId,
    row: Any,
    result: RunResult,
    positions: Sequence[LanePosition] | None,
) -> None:
    """Write the result of a run, and the positions of the export after it."""
    tenant_id, export_uid = run_id.tenant_id, row["export_uid"]
    if row["kind"] == EXPORT:
        sums = (result.rows, result.rejected, result.filtered, result.bytes)
        await connection.execute(_SUM, tenant_id, export_uid, *sums)
    reached = positions
    if reached is None and row["kind"] == EXPORT:
        reached = [LanePosition(lane, end) for lane, _, end, _ in ranges_of(row["ranges"]) or ()]
    await _reach(connection, tenant_id, export_uid, [(*each, None) for each in reached or ()])
    await export_pins.follow(connection, tenant_id, export_uid)


class _Planning:
    """Plans the lanes of one export, within a transaction that has locked it."""

    def __init__(self, connection: Connection, tenant_id: bytes, export_uid: bytes) -> None:
        self._connection = connection
        self._key = (tenant_id, export_uid)

    async def look(
        self, spec: ExportSpec, positions: Sequence[LanePosition], ends: Sequence[LaneEnd]
    ) -> dict[Lane, LaneFacts]:
        """Return the facts of the existing lanes; the export begins in new ones."""
        lanes = {LaneOf(*lane[1:]): (lane, end) for lane, end in ends}
        trimmed = await export_pins.trimmed(self._connection, self._key[0], frozenset(lanes))
        known = await self._known()
        begins = {lane: at for lane, at in trimmed.items() if lane not in known}
        await export_pins.begin(self._connection, *self._key, begins)
        known |= {lane: (at, at) for lane, at in begins.items()}
        reported = {LaneOf(*lane[1:]): offset for lane, offset in positions}
        return {
            lanes[lane][0]: LaneFacts(
                begins=known[lane][0],
                reported=reported.get(lane),
                known=known[lane][1],
                trimmed_to=at,
                end=lanes[lane][1],
                table_keeps=spec.format == TABLE_KEEPS_POSITIONS,
            )
            for lane, at in trimmed.items()
        }

    async def note(self, lanes: dict[Lane, LaneFacts]) -> None:
        """Write the positions of the export and pin it there, also back, if a table has less than
        before.

        Deleted messages are counted with the positions, so that they are counted once.
        """
        expired = sum(facts.expired for facts in lanes.values())
        if expired:
            await self._connection.execute(_EXPIRED, *self._key, expired)
        rows = [(lane, facts.start, facts.end) for lane, facts in sorted(lanes.items())]
        await _reach(self._connection, *self._key, rows)
        at = {LaneOf(*lane[1:]): start for lane, start, _ in rows}
        await export_pins.pin(self._connection, *self._key, at)

    async def _known(self) -> dict[LaneOf, tuple[int, int]]:
        rows = await self._connection.fetch(_KNOWN, *self._key)
        return {LaneOf(*row[:3]): (row["begins"], row["reached"]) for row in rows}


async def _reach(
    connection: Connection,
    tenant_id: bytes,
    export_uid: bytes,
    rows: Sequence[tuple[Lane, int, int | None]],
) -> None:
    await connection.execute(
        *(_REACH, tenant_id, export_uid, [lane.topic_uid for lane, _, _ in rows]),
        *([lane.partition for lane, _, _ in rows], [lane.lane for lane, _, _ in rows]),
        *([offset for _, offset, _ in rows], [end for _, _, end in rows]),
    )


async def lock_run(connection: Connection, run_id: RunId) -> Any:
    """Lock a run after its export; return its row, or None if it is gone."""
    await connection.execute(_LOCK_EXPORT, *run_id)
    return await connection.fetchrow(_LOCK_RUN, *run_id)


def run_line(row: Any) -> LockedRun:
    """Return the columns of the row on which decisions depend."""
    return LockedRun(
        row["state"],
        row["attempt"],
        row["max_attempts"],
        row["cancelling"],
        row["lease"],
        row["held"],
    )


async def _spec(connection: Connection, run_id: RunId, row: Any) -> ExportSpec:
    return spec_of(await connection.fetchrow(_SPEC, run_id.tenant_id, row["export_uid"]))
