"""Exports: what of a topic goes to which table, and how far that is.

A new export pins the history it begins with, in the transaction that makes it; its deletion drops
what it pins, and its runs with it. The number of its last run stays behind, by its table: a table
tells runs apart by their numbers, so an export that is made for a table again goes on above them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Connection, Database
from metadata.errors import Conflict, MetadataError, NotFound
from metadata.exports import pins as export_pins
from metadata.exports.pins import LaneOf
from metadata.exports.rows import (
    EXPORTS,
    POSITIONS,
    RUNS,
    export_of,
    json,
    labels_of,
    run_of,
    state_of,
)
from metadata.exports.types import (
    Export,
    ExportSpec,
    LanePosition,
    LaneState,
    Run,
    like,
)
from metadata.ids import new_uid
from metadata.models import TopicRow
from metadata.paging import name_after, page_of
from metadata.topics.topics import topic_of
from metadata.types import Page, Topic, TopicState
from openapi.exports import ExportPut

MAX_EXPORTS = 1_000
"""The limit of exports for one tenant."""
_REJECTS = "_rejects"
"""The suffix of the name of a rejects table, after the name of its table."""

_ONE = EXPORTS + "WHERE e.tenant_id = $1 AND e.name = $2"
_ONE_TO_CHANGE = _ONE + " FOR UPDATE OF e"
_PAGE = (
    EXPORTS
    + """
WHERE e.tenant_id = $1 AND e.name > $2 AND ($3::text IS NULL OR $3 LIKE e.topic_like)
ORDER BY e.name
LIMIT $4
"""
)
_LAST_RUNS = (
    RUNS
    + """
WHERE r.tenant_id = $1 AND (r.export_uid, r.number) IN (
    SELECT latest.export_uid, max(latest.number) FROM export_runs AS latest
    WHERE latest.tenant_id = $1 AND latest.export_uid = ANY ($2::uuid[])
    GROUP BY latest.export_uid
)
"""
)
_RUNNING = RUNS + "WHERE r.tenant_id = $1 AND r.export_uid = $2 AND r.state = 'running'"
_COUNT = "SELECT count(*) FROM exports WHERE tenant_id = $1"
_WHOSE_TABLE = """
SELECT name FROM exports
WHERE tenant_id = $1 AND lake = $2
  AND (table_name = $3 OR table_name = $3 || $4 OR table_name || $4 = $3)
"""
_INSERT = """
INSERT INTO exports (tenant_id, uid, name, topic, topic_like, table_name, lake, format, body,
    partition_by, key_buckets, start_at, body_columns, keep_data, filter, max_bytes_per_second,
    target_file_bytes, keep_snapshots_s, orphans_after_s, cron, time_zone, missed_runs,
    maintain_cron, next_at, maintain_next_at, paused, labels, version, next_number)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::jsonb, $14, $15, $16, $17, $18,
    $19, $20, $21, $22, $23, $24, $25, $26, $27::jsonb, $28,
    1 + coalesce((
        SELECT last_number FROM export_tables
        WHERE tenant_id = $1 AND lake = $7 AND table_name = $6
    ), 0))
"""
_UPDATE = """
UPDATE exports
SET body_columns = $3::jsonb, keep_data = $4, filter = $5, max_bytes_per_second = $6,
    target_file_bytes = $7, keep_snapshots_s = $8, orphans_after_s = $9, cron = $10,
    time_zone = $11, missed_runs = $12, maintain_cron = $13, next_at = $14, maintain_next_at = $15,
    paused = $16, labels = $17::jsonb, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND uid = $2
"""
_TOLD = "UPDATE exports SET version = $3 WHERE tenant_id = $1 AND uid = $2"
_KEEP_NUMBER = """
INSERT INTO export_tables (tenant_id, lake, table_name, last_number)
SELECT tenant_id, lake, table_name, next_number - 1 FROM exports
WHERE tenant_id = $1 AND uid = $2
ON CONFLICT (tenant_id, lake, table_name)
DO UPDATE SET last_number = greatest(export_tables.last_number, EXCLUDED.last_number)
"""
_DELETE = "DELETE FROM exports WHERE tenant_id = $1 AND uid = $2"


class TooManyExports(MetadataError):
    """The tenant has as many as it may."""

    code = "too_many_exports"


class ImmutableField(MetadataError):
    """An export needs another value in a field that can't change."""

    code = "immutable_field"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} cannot change")
        self.field = field


class TableTaken(MetadataError):
    """Another export of the tenant writes that table of the lake, or its rejects."""

    code = "table_taken"

    def __init__(self, table: str, export: str) -> None:
        super().__init__(f"the table {table!r} is the export {export!r}'s")
        self.table = table
        self.export = export


class ExportRepository:
    """Names are unique per tenant, and so are tables per tenant and lake."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, tenant_id: bytes, spec: ExportSpec, starts: Sequence[LanePosition]
    ) -> Export:
        """Beginning at `starts` in the lanes there are now, no lower than what is trimmed; in lanes
        that come later it begins with the first message.

        Conflict when the name is taken (`existing` is who has it); TableTaken; TooManyExports;
        NotFound of a topic in `starts` that is gone.
        """
        uid = new_uid()

        async def work(connection: Connection) -> Export:
            taken = await _find(connection, tenant_id, spec.name)
            if taken is not None:
                raise Conflict("export", spec.name, "exists already", taken)
            if await connection.fetchval(_COUNT, tenant_id) >= MAX_EXPORTS:
                raise TooManyExports(f"a tenant has at most {MAX_EXPORTS} exports; delete some")
            table = (spec.lake, spec.table, _REJECTS)
            whose = await connection.fetchval(_WHOSE_TABLE, tenant_id, *table)
            if whose is not None:
                raise TableTaken(spec.table, whose)
            fixed = (spec.name, spec.topic, like(spec.topic), spec.table, spec.lake, spec.format)
            layout = (spec.body, spec.partition_by, spec.key_buckets, spec.start)
            await connection.execute(
                _INSERT, tenant_id, uid, *fixed, *layout, *_mutable(spec), changes.UNTOLD
            )
            await _begin(connection, tenant_id, uid, starts)
            made = await _expect(connection, tenant_id, spec.name)
            return await _told(connection, made)

        return await changes.in_turn(self._database, tenant_id, work)

    async def get(self, tenant_id: bytes, name: str) -> Export:
        """Return an export; raises NotFound."""

        async def work(connection: Connection) -> Export:
            return await _expect(connection, tenant_id, name)

        return await self._database.of(tenant_id).transaction(work)

    async def page(
        self,
        tenant_id: bytes,
        *,
        topic: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Export]:
        """List exports by name, or only those that take `topic`; raises BadPageToken."""
        after = name_after(page_token)

        async def work(connection: Connection) -> Page[Export]:
            rows = await connection.fetch(_PAGE, tenant_id, after, topic, page_size + 1)
            return page_of(await _exports(connection, tenant_id, rows), page_size)

        return await self._database.of(tenant_id).transaction(work)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[Export], ExportSpec],
        *,
        if_version: int | None = None,
    ) -> Export:
        """Change an export to the result of `change`, under a lock; an equal result is no new
        version.

        Raises NotFound, ImmutableField, and Conflict if `if_version` is another version.
        """

        async def work(connection: Connection) -> Export:
            export = await _lock(connection, tenant_id, name, if_version)
            spec = change(export)
            if spec == export.spec:
                return export
            for field in ExportPut.FIXED:
                if getattr(spec, field) != getattr(export.spec, field):
                    raise ImmutableField(field)
            await connection.execute(_UPDATE, tenant_id, export.uid, *_mutable(spec))
            return await _told(connection, await _expect(connection, tenant_id, name))

        return await changes.in_turn(self._database, tenant_id, work)

    async def delete(
        self, tenant_id: bytes, name: str, *, if_version: int | None = None
    ) -> Run | None:
        """Delete an export with its runs, pins and positions, but not its table.

        Returns the run that was at work, if any: its runner hears that its lease is lost. Raises
        NotFound, and Conflict if `if_version` is another version.
        """

        async def work(connection: Connection) -> Run | None:
            export = await _lock(connection, tenant_id, name, if_version)
            await connection.execute(_KEEP_NUMBER, tenant_id, export.uid)
            await export_pins.drop(connection, tenant_id, export.uid)
            running = await connection.fetchrow(_RUNNING, tenant_id, export.uid)
            await connection.execute(_DELETE, tenant_id, export.uid)
            await changes.take_version(connection)
            return None if running is None else run_of(running)

        return await changes.in_turn(self._database, tenant_id, work)

    async def topics(self, tenant_id: bytes, pattern: str) -> tuple[Topic, ...]:
        """Return the active topics that an export of `pattern` takes, by name, with their
        partitions.
        """
        statement = (
            select(TopicRow)
            .where(TopicRow.tenant_id == tenant_id, TopicRow.name.like(like(pattern)))
            .where(TopicRow.state == TopicState.ACTIVE.value)
            .order_by(TopicRow.name)
        )

        async def work(session: AsyncSession) -> tuple[Topic, ...]:
            return tuple(topic_of(row) for row in await session.scalars(statement))

        return await self._database.of(tenant_id).read(work)


async def _begin(
    connection: Connection, tenant_id: bytes, uid: bytes, starts: Sequence[LanePosition]
) -> None:
    wanted = {LaneOf(*lane[1:]): (lane.topic, offset) for lane, offset in starts}
    trimmed = await export_pins.trimmed(connection, tenant_id, frozenset(wanted))
    for lane, (topic, _) in wanted.items():
        if lane not in trimmed:
            raise NotFound("topic", topic)
    at = {lane: max(offset, trimmed[lane]) for lane, (_, offset) in wanted.items()}
    await export_pins.begin(connection, tenant_id, uid, at)


async def _told(connection: Connection, export: Export) -> Export:
    """Return the export with the version of this change."""
    version = await changes.take_version(connection)
    await connection.execute(_TOLD, export.tenant_id, export.uid, version)
    return replace(export, version=version)


async def _lock(
    connection: Connection, tenant_id: bytes, name: str, if_version: int | None
) -> Export:
    row = await connection.fetchrow(_ONE_TO_CHANGE, tenant_id, name)
    if row is None:
        raise NotFound("export", name)
    (export,) = await _exports(connection, tenant_id, [row])
    if if_version is not None and export.version != if_version:
        raise Conflict("export", name, f"is at version {export.version}", export)
    return export


async def _expect(connection: Connection, tenant_id: bytes, name: str) -> Export:
    export = await _find(connection, tenant_id, name)
    if export is None:
        raise NotFound("export", name)
    return export


async def _find(connection: Connection, tenant_id: bytes, name: str) -> Export | None:
    rows = await connection.fetch(_ONE, tenant_id, name)
    found = await _exports(connection, tenant_id, rows)
    return found[0] if found else None


async def _exports(connection: Connection, tenant_id: bytes, rows: Sequence[Any]) -> list[Export]:
    """Return exports from their rows, with their positions and last runs."""
    uids = [row["uid"] for row in rows]
    positions: dict[bytes, list[LaneState]] = {uid: [] for uid in uids}
    for row in await connection.fetch(POSITIONS, tenant_id, uids):
        positions[row["export_uid"]].append(state_of(row))
    runs: dict[bytes, Run] = {}
    for row in await connection.fetch(_LAST_RUNS, tenant_id, uids):
        runs[row["export_uid"]] = run_of(row)
    return [export_of(row, positions[row["uid"]], runs.get(row["uid"])) for row in rows]


def _mutable(spec: ExportSpec) -> tuple[Any, ...]:
    return (
        *(json(dict(spec.columns)), spec.keep_data, spec.filter, spec.max_bytes_per_second),
        *(spec.target_file_bytes, spec.keep_snapshots_s, spec.orphans_after_s, spec.cron),
        *(spec.time_zone, spec.missed_runs, spec.maintain_cron, spec.next_at),
        *(spec.maintain_next_at, spec.paused, labels_of(spec.labels)),
    )
