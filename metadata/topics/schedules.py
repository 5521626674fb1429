"""Schedules: messages published by the clock, and how far each one is.

`next_at` is the run that comes next, or is being made; it moves on in the same statement that
counts the run, and only from the value that was seen, so a run is counted once. A run itself does
not change the schedule's version: that is for what callers change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from metadata import changes
from metadata.counts import NO_LIMITS, SCHEDULES, Defaults, require_room
from metadata.database import Connection, Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.locks import locks
from metadata.locks.locks import Lock
from metadata.models import ScheduleRow, TopicRow
from metadata.paging import name_after, page_of
from metadata.types import ChangeKind, Page, TopicState

_Found = Row[ScheduleRow, str]
MAX_FAILURE_CHARS = 500


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """The values that a caller chooses.

    `message` is opaque here; `next_at` is the first run from now on, None when there is none.
    """

    name: str
    topic_uid: bytes
    cron: str
    time_zone: str
    missed_runs: str
    message: bytes
    next_at: datetime | None
    paused: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as one transaction saw it. `version` is its ETag."""

    tenant_id: bytes
    uid: bytes
    topic_uid: bytes
    topic_name: str
    name: str
    cron: str
    time_zone: str
    missed_runs: str
    message: bytes
    paused: bool
    next_at: datetime | None
    last_at: datetime | None
    last_message_id: str | None
    runs: int
    missed: int
    failure: str | None
    labels: Mapping[str, str]
    version: int
    created_at: datetime
    updated_at: datetime


class DueSchedule(NamedTuple):
    """The values of a schedule that its runs need."""

    tenant_id: bytes
    uid: bytes
    topic_uid: bytes
    name: str
    cron: str
    time_zone: str
    missed_runs: str
    message: bytes
    next_at: datetime


class Progress(NamedTuple):
    """The outcome of the runs from `next_at` on, up to `then`, the next one to come.

    `last_at` and `last_message_id` are None where none was published.
    """

    then: datetime | None
    runs: int
    missed: int
    last_at: datetime | None
    last_message_id: str | None


_DUE = """
SELECT s.tenant_id, s.uid, s.topic_uid, s.name, s.cron, s.time_zone, s.missed_runs, s.message,
    s.next_at
FROM schedules s
JOIN tenants t ON t.tenant_id = s.tenant_id AND t.state = 'active'
WHERE NOT s.paused AND s.next_at IS NOT NULL AND NOT (s.uid = ANY ($1))
ORDER BY s.next_at
LIMIT $2
"""
_RAN = """
UPDATE schedules s
SET runs = s.runs + d.runs,
    missed = s.missed + d.missed,
    last_at = coalesce(d.last_at, s.last_at),
    last_message_id = coalesce(d.last_message_id, s.last_message_id),
    failure = NULL,
    next_at = CASE WHEN s.cron = d.cron AND s.time_zone = d.time_zone THEN d.next ELSE s.next_at END
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[],
        $6::timestamptz[], $7::text[], $8::text[], $9::text[], $10::timestamptz[])
    AS d (tenant_id, uid, seen, runs, missed, last_at, last_message_id, cron, time_zone, next)
WHERE s.tenant_id = d.tenant_id AND s.uid = d.uid AND s.next_at = d.seen
"""
_FAILED = """
UPDATE schedules s SET failure = d.failure
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS d (tenant_id, uid, failure)
WHERE s.tenant_id = d.tenant_id AND s.uid = d.uid AND s.failure IS DISTINCT FROM d.failure
"""


class ScheduleRepository:
    """Names are unique per tenant."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` of the platform, by name; counts.OBJECT_LIMITS where they say nothing."""
        self._database = database
        self._limits = limits

    async def create(self, tenant_id: bytes, spec: ScheduleSpec) -> Schedule:
        """Create a schedule.

        Raises NotFound when the topic isn't active; Conflict when the name is taken; QuotaExceeded.
        """

        async def work(session: AsyncSession) -> Schedule:
            await changes.wait_turn(session, tenant_id)
            topic_name = await _topic_name(session, tenant_id, spec.topic_uid)
            if await _named(session, tenant_id, spec.name) is not None:
                raise Conflict("schedule", spec.name, "exists already")
            count = select(func.count()).where(ScheduleRow.tenant_id == tenant_id)
            await require_room(session, tenant_id, SCHEDULES, count, self._limits)
            row = ScheduleRow(tenant_id=tenant_id, uid=new_uid(), version=changes.UNTOLD)
            _set(row, spec)
            return await _put(session, row, topic_name)

        return await self._database.of(tenant_id).write(work)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[Schedule], ScheduleSpec],
        *,
        if_version: int | None = None,
    ) -> Schedule:
        """Change a schedule by `change`, under a lock.

        Raises NotFound for it or its topic; Conflict when `if_version` is another.
        """

        async def work(session: AsyncSession) -> Schedule:
            await changes.wait_turn(session, tenant_id)
            found = await _named(session, tenant_id, name, lock=True)
            if found is None:
                raise NotFound("schedule", name)
            row = found[0]
            if if_version is not None and row.version != if_version:
                raise Conflict("schedule", name, f"is at version {row.version}", _schedule(found))
            spec = change(_schedule(found))
            topic_name = await _topic_name(session, tenant_id, spec.topic_uid)
            _set(row, spec)
            row.failure = None
            return await _put(session, row, topic_name)

        return await self._database.of(tenant_id).write(work)

    async def get(self, tenant_id: bytes, name: str) -> Schedule:
        """Return the schedule. Raises NotFound."""

        async def work(session: AsyncSession) -> Schedule:
            found = await _named(session, tenant_id, name)
            if found is None:
                raise NotFound("schedule", name)
            return _schedule(found)

        return await self._database.of(tenant_id).read(work)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Schedule]:
        """Return a page of schedules by name. Raises BadPageToken."""
        statement = (
            _with_topic_name(tenant_id)
            .where(ScheduleRow.name > name_after(page_token))
            .order_by(ScheduleRow.name)
            .limit(page_size + 1)
        )

        async def work(session: AsyncSession) -> Page[Schedule]:
            found = await session.execute(statement)
            return page_of([_schedule(item) for item in found], page_size)

        return await self._database.of(tenant_id).read(work)

    async def delete(self, tenant_id: bytes, name: str, *, if_version: int | None = None) -> None:
        """Delete a schedule. Raises NotFound; Conflict when `if_version` is another."""

        async def work(session: AsyncSession) -> None:
            await changes.wait_turn(session, tenant_id)
            found = await _named(session, tenant_id, name, lock=True)
            if found is None:
                raise NotFound("schedule", name)
            row = found[0]
            if if_version is not None and row.version != if_version:
                raise Conflict("schedule", name, f"is at version {row.version}", _schedule(found))
            await session.execute(
                delete(ScheduleRow).where(
                    ScheduleRow.tenant_id == tenant_id, ScheduleRow.uid == row.uid
                )
            )
            await changes.tell(session, _told(row))

        await self._database.of(tenant_id).write(work)

    async def due(self, limit: int, besides: Sequence[bytes] = ()) -> list[DueSchedule]:
        """Return the schedules that run next, the first of them first, without the uids in
        `besides`.
        """

        async def work(connection: Connection) -> list[DueSchedule]:
            rows = await connection.fetch(_DUE, list(besides), limit)
            return [DueSchedule(*row) for row in rows]

        return await self._database.statement(work, writes=False)

    async def ran(self, lock: Lock, done: Sequence[tuple[DueSchedule, Progress]]) -> None:
        """Once what was to be published is. Nothing of those that were deleted, or counted before.
        LeaseLost when another schedules now."""
        columns = zip(
            *[
                (
                    due.tenant_id,
                    due.uid,
                    due.next_at,
                    progress.runs,
                    progress.missed,
                    progress.last_at,
                    progress.last_message_id,
                    due.cron,
                    due.time_zone,
                    progress.then,
                )
                for due, progress in done
            ],
            strict=True,
        )
        await self._all(lock, _RAN, [list(column) for column in columns])

    async def failed(self, lock: Lock, failures: Sequence[tuple[DueSchedule, str]]) -> None:
        """Note why their runs cannot be made now; they stay due.

        Raises LeaseLost when another process schedules now.
        """
        texts = [text[:MAX_FAILURE_CHARS].replace("\0", "") for _, text in failures]
        tenants, uids = [due.tenant_id for due, _ in failures], [due.uid for due, _ in failures]
        await self._all(lock, _FAILED, [tenants, uids, texts])

    async def _all(self, lock: Lock, statement: str, columns: Sequence[Sequence[object]]) -> None:
        if not columns:
            return

        async def work(connection: Connection) -> None:
            await locks.check(connection, lock)
            await connection.execute(statement, *columns)

        await self._database.transaction(work)


def _with_topic_name(tenant_id: bytes) -> Select[ScheduleRow, str]:
    topic_name: InstrumentedAttribute[str] = TopicRow.name
    return (
        select(ScheduleRow, topic_name)
        .join(
            TopicRow,
            (TopicRow.tenant_id == ScheduleRow.tenant_id) & (TopicRow.uid == ScheduleRow.topic_uid),
        )
        .where(ScheduleRow.tenant_id == tenant_id)
    )


async def _named(
    session: AsyncSession, tenant_id: bytes, name: str, *, lock: bool = False
) -> _Found | None:
    statement = _with_topic_name(tenant_id).where(ScheduleRow.name == name)
    if lock:
        statement = statement.with_for_update(of=ScheduleRow)
    return (await session.execute(statement)).one_or_none()


async def _topic_name(session: AsyncSession, tenant_id: bytes, topic_uid: bytes) -> str:
    topic = await session.get(TopicRow, (tenant_id, topic_uid))
    if topic is None or topic.state != TopicState.ACTIVE.value:
        raise NotFound("topic", topic_uid.hex())
    return topic.name


def _set(row: ScheduleRow, spec: ScheduleSpec) -> None:
    row.name = spec.name
    row.topic_uid = spec.topic_uid
    row.cron = spec.cron
    row.time_zone = spec.time_zone
    row.missed_runs = spec.missed_runs
    row.message = spec.message
    row.paused = spec.paused
    row.next_at = spec.next_at
    row.labels = dict(spec.labels)


async def _put(session: AsyncSession, row: ScheduleRow, topic_name: str) -> Schedule:
    row.updated_at = func.now()
    session.add(row)
    await session.flush()
    await session.refresh(row)
    row.version = await changes.tell(session, _told(row))
    return _schedule_of(row, topic_name)


def _told(row: ScheduleRow) -> changes.FeedChange:
    return changes.FeedChange(ChangeKind.SCHEDULE, row.tenant_id, row.uid, row.name, row.topic_uid)


def _schedule(found: _Found) -> Schedule:
    return _schedule_of(found[0], found[1])


def _schedule_of(row: ScheduleRow, topic_name: str) -> Schedule:
    return Schedule(
        tenant_id=row.tenant_id,
        uid=row.uid,
        topic_uid=row.topic_uid,
        topic_name=topic_name,
        name=row.name,
        cron=row.cron,
        time_zone=row.time_zone,
        missed_runs=row.missed_runs,
        message=row.message,
        paused=row.paused,
        next_at=row.next_at,
        last_at=row.last_at,
        last_message_id=row.last_message_id,
        runs=row.runs,
        missed=row.missed,
        failure=row.failure,
        labels=dict(row.labels),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
