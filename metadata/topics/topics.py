"""Topics and their partitions: one aggregate, one repository.

A topic's queues live in the store, so creating and deleting one is: intent here, work there, done
here. Each step can be repeated, and `unfinished` finds what a dead process left half-way. A name is
unique among topics that aren't `deleting`: it is free the moment the delete is committed, and the
next topic of that name has a new uid, which is in every key of what belongs to it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.counts import (
    NO_LIMITS,
    TOPICS,
    Defaults,
    limit_in_force,
    require_alive,
    require_below,
)
from metadata.database import Connection, Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.models import (
    AssignmentRow,
    CursorRow,
    PartitionRow,
    SchemaRow,
    SubscriptionRow,
    TopicRow,
)
from metadata.paging import name_after, page_of
from metadata.types import (
    ChangeKind,
    Page,
    Partition,
    Retention,
    SealedPartition,
    Topic,
    TopicSpec,
    TopicState,
)

_DELETING = TopicState.DELETING.value
_BEFORE = """
SELECT tenants.state AS tenant_state, tenants.built_in_limits, quotas.limits::text AS own_limits,
    (
        SELECT uid FROM topics WHERE tenant_id = $1 AND name = $2 AND state <> 'deleting'
    ) AS existing,
    $3::text IS NULL
        OR EXISTS (SELECT FROM schemas WHERE tenant_id = $1 AND name = $3) AS has_schema
FROM (SELECT) AS one
LEFT JOIN tenants ON tenants.tenant_id = $1
LEFT JOIN quotas ON quotas.tenant_id = $1
"""
_COUNT = "SELECT count(*) FROM topics WHERE tenant_id = $1 AND state <> 'deleting'"
_CREATE = """
WITH topic AS (
    INSERT INTO topics (
        tenant_id, uid, name, state, retention_mode, retention_seconds, retention_bytes,
        retention_on_limit, dedup_window_s, labels, priorities, ack_history, schema_name, version
    )
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12, $13, $14)
    RETURNING created_at, updated_at
), queues AS (
    INSERT INTO partitions (
        tenant_id, topic_uid, partition, lane, generation, group_number, base, trimmed_to
    )
    SELECT $1, $2, number - 1, lane, 0, group_number, 0, 0
    FROM unnest($15::int[]) WITH ORDINALITY AS placed (group_number, number),
        generate_series(0, $11 - 1) AS lane
), units AS (
    INSERT INTO assignments (tenant_id, topic_uid, partition, epoch_era, epoch_n)
    SELECT $1, $2, number, 0, 0 FROM generate_series(0, cardinality($15::int[]) - 1) AS number
)
SELECT created_at, updated_at FROM topic
"""
_ACTIVATE = (
    """
WITH topic AS MATERIALIZED (
    SELECT name, state FROM topics WHERE tenant_id = $3 AND uid = $4 FOR NO KEY UPDATE
), changed AS (
    SELECT name FROM topic WHERE state = 'creating'
), """
    + changes.TELL_ONE
    + """, active AS (
    UPDATE topics SET state = 'active', version = taken.version, updated_at = now()
    FROM taken WHERE tenant_id = $3 AND uid = $4
    RETURNING topics.version, updated_at
)
SELECT topic.state, active.version, active.updated_at,
    CASE WHEN active.version IS NOT NULL THEN pg_notify($1, '') END
FROM topic LEFT JOIN active ON true
"""
)


class TopicRepository:
    """Intent first: a row is `creating` before its queues exist, `deleting` before they go."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """Use `limits` of the platform for tenants without their own."""
        self._database = database
        self._limits = limits

    async def create(self, tenant_id: bytes, spec: TopicSpec, placements: Sequence[int]) -> Topic:
        """Create a `creating` topic with one partition per group in `placements`, all lanes of each
        there.

        It has no version, and the feed does not tell of it, before it is active. Conflict when the
        name is taken; `existing` is the topic that has it. NotFound of the schema, or of a tenant
        that is being deleted. QuotaExceeded.
        """
        made = _new_topic(tenant_id, spec, placements)

        async def work(connection: Connection) -> Topic | bytes:
            found = await connection.fetchrow(_BEFORE, tenant_id, spec.name, spec.schema)
            if found["existing"] is not None:
                return bytes(found["existing"])
            await self._require_room(connection, tenant_id, found)
            if not found["has_schema"]:
                raise NotFound("schema", spec.schema or "")
            row = await connection.fetchrow(_CREATE, *_columns(made), list(placements))
            return replace(made, created_at=row[0], updated_at=row[1])

        if spec.schema is not None and "\0" in spec.schema:
            raise NotFound("schema", spec.schema)
        while isinstance(done := await changes.in_turn(self._database, tenant_id, work), bytes):
            # A topic that is going since does not have the name any more.
            with contextlib.suppress(NotFound):
                existing = await self.get_by_uid(tenant_id, done)
                if existing.state is not TopicState.DELETING:
                    raise Conflict("topic", spec.name, "exists already", existing)
        return done

    async def _require_room(self, connection: Connection, tenant_id: bytes, found: Any) -> None:
        require_alive(tenant_id, found["tenant_state"])
        own = None if found["own_limits"] is None else json.loads(found["own_limits"])
        limit = limit_in_force(TOPICS, self._limits, own, exempt=not found["built_in_limits"])
        if limit:
            require_below(TOPICS, limit, await connection.fetchval(_COUNT, tenant_id))

    async def activate(self, tenant_id: bytes, uid: bytes) -> Topic:
        """Turn creating into active, once every queue exists; idempotent. NotFound when it is
        going."""
        await self._activate(tenant_id, uid)
        return await self.get_by_uid(tenant_id, uid)

    async def finish(self, made: Topic) -> Topic | None:
        """Do the same with a topic as `create` returned it, and return it without reading it; None
        if it was active already."""
        done = await self._activate(made.tenant_id, made.uid)
        if done is None:
            return None
        return replace(made, state=TopicState.ACTIVE, version=done[0], updated_at=done[1])

    async def _activate(self, tenant_id: bytes, uid: bytes) -> tuple[int, datetime] | None:
        """Return the version and the time of the change, if it was one."""

        async def work(connection: Connection) -> tuple[int, datetime] | None:
            told = (changes.CHANNEL, ChangeKind.TOPIC.value, tenant_id, uid)
            row = await connection.fetchrow(_ACTIVATE, *told)
            if row is None or row["state"] == _DELETING:
                raise NotFound("topic", uid.hex())
            return None if row["version"] is None else (row["version"], row["updated_at"])

        return await changes.in_turn(self._database, tenant_id, work)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[Topic], TopicSpec],
        *,
        if_version: int | None = None,
    ) -> Topic:
        """Change the active topic by `change`; name and priorities stay. Without a difference there
        is no new version. `change` may be called again, and an error of it leaves the topic as it
        was.

        NotFound of the topic, or of the schema; Conflict when `if_version` is another.
        """

        async def work(session: AsyncSession) -> Topic:
            await changes.wait_turn(session, tenant_id)
            row = await named(session, tenant_id, name)
            if row is None or row.state != TopicState.ACTIVE.value:
                raise NotFound("topic", name)
            topic = topic_of(row)
            if if_version is not None and row.version != if_version:
                raise Conflict("topic", name, f"is at version {row.version}", topic)
            spec = change(topic)
            await _require_schema(session, tenant_id, spec.schema)
            if not _apply(row, spec):
                return topic
            return await turn(session, row, TopicState.ACTIVE)

        return await self._database.of(tenant_id).write(work)

    async def get(self, tenant_id: bytes, name: str) -> Topic:
        """Return the topic of that name that is creating or active. Raises NotFound."""

        async def work(session: AsyncSession) -> Topic:
            row = await named(session, tenant_id, name)
            if row is None:
                raise NotFound("topic", name)
            return topic_of(row)

        return await self._database.of(tenant_id).read(work)

    async def get_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        """Return the topic in any state. Raises NotFound."""

        async def work(session: AsyncSession) -> Topic:
            row = await session.get(TopicRow, (tenant_id, uid))
            if row is None:
                raise NotFound("topic", uid.hex())
            return topic_of(row)

        return await self._database.of(tenant_id).read(work)

    async def page(
        self, tenant_id: bytes, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Topic]:
        """Return a page of active topics by name. Raises BadPageToken."""
        statement = (
            select(TopicRow)
            .where(TopicRow.tenant_id == tenant_id, TopicRow.name > name_after(page_token))
            .where(TopicRow.state == TopicState.ACTIVE.value)
            .order_by(TopicRow.name)
            .limit(page_size + 1)
        )

        async def work(session: AsyncSession) -> Page[Topic]:
            rows = await session.scalars(statement)
            return page_of([topic_of(row) for row in rows], page_size)

        return await self._database.of(tenant_id).read(work)

    async def mark_deleting(
        self, tenant_id: bytes, name: str, *, if_version: int | None = None
    ) -> Topic:
        """Frees the name and drops subscriptions, cursors and claims; the queues are still there.

        The caller then seals and deletes the queues of the returned topic and calls `remove`.
        NotFound; Conflict when `if_version` is another.
        """

        async def work(session: AsyncSession) -> Topic:
            await changes.wait_turn(session, tenant_id)
            row = await named(session, tenant_id, name)
            if row is None:
                raise NotFound("topic", name)
            if if_version is not None and row.version != if_version:
                raise Conflict("topic", name, f"is at version {row.version}", topic_of(row))
            dropped = await _drop_readers(session, row)
            return await turn(session, row, TopicState.DELETING, dropped)

        return await self._database.of(tenant_id).write(work)

    async def remove(self, tenant_id: bytes, uid: bytes) -> None:
        """Drops the row of a `deleting` topic, after its queues are gone. Idempotent."""

        async def work(session: AsyncSession) -> None:
            await session.execute(
                delete(TopicRow).where(
                    TopicRow.tenant_id == tenant_id,
                    TopicRow.uid == uid,
                    TopicRow.state == _DELETING,
                )
            )

        await self._database.of(tenant_id).write(work)

    async def unfinished(self, *, older_than_s: float, limit: int = 100) -> list[Topic]:
        """Return topics of any tenant left `creating` or `deleting` by a process that died."""
        statement = (
            select(TopicRow)
            .where(TopicRow.state != TopicState.ACTIVE.value)
            .where(TopicRow.updated_at < func.now() - timedelta(seconds=older_than_s))
            .order_by(TopicRow.updated_at)
            .limit(limit)
        )

        async def work(session: AsyncSession) -> list[Topic]:
            return [topic_of(row) for row in await session.scalars(statement)]

        return await self._database.platform.read(work)


def _new_topic(tenant_id: bytes, spec: TopicSpec, placements: Sequence[int]) -> Topic:
    """Return the `creating` topic, without a version and times."""
    return Topic(
        tenant_id=tenant_id,
        uid=new_uid(),
        name=spec.name,
        state=TopicState.CREATING,
        partitions=tuple(
            Partition(number=number, group=group, lane=lane, generation=0, base=0)
            for number, group in enumerate(placements)
            for lane in range(spec.priorities)
        ),
        retention=spec.retention,
        dedup_window_s=spec.dedup_window_s,
        labels=dict(spec.labels),
        version=changes.UNTOLD,
        created_at=datetime.min,
        updated_at=datetime.min,
        priorities=spec.priorities,
        ack_history=spec.ack_history,
        schema=spec.schema,
    )


def _columns(made: Topic) -> tuple[object, ...]:
    """Return the parameters of `_CREATE` up to the groups."""
    kept = made.retention
    return (
        *(made.tenant_id, made.uid, made.name, made.state.value),
        *(kept.mode, kept.seconds, kept.bytes, kept.on_limit),
        *(made.dedup_window_s, json.dumps(made.labels), made.priorities),
        *(made.ack_history, made.schema, made.version),
    )


async def named(session: AsyncSession, tenant_id: bytes, name: str) -> TopicRow | None:
    """Return the topic that has the name now."""
    return await session.scalar(
        select(TopicRow).where(
            TopicRow.tenant_id == tenant_id, TopicRow.name == name, TopicRow.state != _DELETING
        )
    )


def topic_count(tenant_id: bytes) -> Select[int]:
    """Select the number of topics that count; a topic that is being deleted does not."""
    return (
        select(func.count())
        .select_from(TopicRow)
        .where(TopicRow.tenant_id == tenant_id, TopicRow.state != _DELETING)
    )


async def _require_schema(session: AsyncSession, tenant_id: bytes, name: str | None) -> None:
    if name is None:
        return
    if "\0" in name or await session.get(SchemaRow, (tenant_id, name)) is None:
        raise NotFound("schema", name)


def _apply(row: TopicRow, spec: TopicSpec) -> bool:
    """Apply a spec; return whether anything is different now."""
    wanted = {
        "retention_mode": spec.retention.mode,
        "retention_seconds": spec.retention.seconds,
        "retention_bytes": spec.retention.bytes,
        "retention_on_limit": spec.retention.on_limit,
        "dedup_window_s": spec.dedup_window_s,
        "ack_history": spec.ack_history,
        "schema_name": spec.schema,
        "labels": dict(spec.labels),
    }
    different = {field: value for field, value in wanted.items() if getattr(row, field) != value}
    for field, value in different.items():
        setattr(row, field, value)
    return bool(different)


async def _drop_readers(session: AsyncSession, topic: TopicRow) -> list[changes.FeedChange]:
    """Delete assignments, then cursors, each locked in key order like claims and flushes lock them.

    Returns the changes of the subscriptions to tell.
    """
    of_topic = (AssignmentRow.tenant_id == topic.tenant_id, AssignmentRow.topic_uid == topic.uid)
    await session.execute(
        select(AssignmentRow.partition)
        .where(*of_topic)
        .order_by(AssignmentRow.partition, AssignmentRow.subscription_uid)
        .with_for_update()
    )
    cursors = (CursorRow.tenant_id == topic.tenant_id, CursorRow.topic_uid == topic.uid)
    await session.execute(
        select(CursorRow.partition)
        .where(*cursors)
        .order_by(CursorRow.subscription_uid, CursorRow.partition, CursorRow.lane)
        .with_for_update()
    )
    await session.execute(delete(AssignmentRow).where(*of_topic))
    dropped = await session.execute(
        delete(SubscriptionRow)
        .where(SubscriptionRow.tenant_id == topic.tenant_id)
        .where(SubscriptionRow.topic_uid == topic.uid)
        .returning(SubscriptionRow.uid, SubscriptionRow.name)
    )
    return [
        changes.FeedChange(ChangeKind.SUBSCRIPTION, topic.tenant_id, uid, name, topic.uid)
        for uid, name in dropped.all()
    ]


async def turn(
    session: AsyncSession,
    row: TopicRow,
    state: TopicState,
    before: Sequence[changes.FeedChange] = (),
) -> Topic:
    """Give the topic a new version, told to the feed after the changes `before`."""
    row.state = state.value
    row.updated_at = func.now()
    await session.flush()
    await session.refresh(row)
    row.version = await changes.tell(session, *before, _told(row))
    return topic_of(row)


def _told(row: TopicRow) -> changes.FeedChange:
    return changes.FeedChange(ChangeKind.TOPIC, row.tenant_id, row.uid, row.name, row.uid)


def new_topic(tenant_id: bytes, uid: bytes, spec: TopicSpec, state: TopicState) -> TopicRow:
    """Return the row of a topic that has no partitions yet."""
    return TopicRow(
        tenant_id=tenant_id,
        uid=uid,
        name=spec.name,
        state=state.value,
        retention_mode=spec.retention.mode,
        retention_seconds=spec.retention.seconds,
        retention_bytes=spec.retention.bytes,
        retention_on_limit=spec.retention.on_limit,
        dedup_window_s=spec.dedup_window_s,
        labels=dict(spec.labels),
        priorities=spec.priorities,
        ack_history=spec.ack_history,
        schema_name=spec.schema,
        version=changes.UNTOLD,
    )


def new_partition(
    topic: TopicRow, number: int, lane: int, group: int, generation: int = 0
) -> PartitionRow:
    """Return a generation from offset 0 on, of which nothing is trimmed."""
    return PartitionRow(
        tenant_id=topic.tenant_id,
        topic_uid=topic.uid,
        partition=number,
        lane=lane,
        generation=generation,
        group_number=group,
        base=0,
        trimmed_to=0,
    )


def new_assignment(topic: TopicRow, number: int) -> AssignmentRow:
    """Return the assignment of a new partition: it has no owner, and no epoch yet."""
    return AssignmentRow(
        tenant_id=topic.tenant_id, topic_uid=topic.uid, partition=number, epoch_era=0, epoch_n=0
    )


def topic_of(row: TopicRow) -> Topic:
    """Return the row and its partitions as a value."""
    return Topic(
        tenant_id=row.tenant_id,
        uid=row.uid,
        name=row.name,
        state=TopicState(row.state),
        partitions=tuple(
            Partition(
                number=partition.partition,
                group=partition.group_number,
                lane=partition.lane,
                generation=partition.generation,
                base=partition.base,
            )
            for partition in row.partitions
            if partition.sealed_at is None
        ),
        retention=Retention(
            row.retention_mode,
            row.retention_seconds,
            row.retention_bytes,
            row.retention_on_limit,
        ),
        dedup_window_s=row.dedup_window_s,
        labels=dict(row.labels),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        full=row.full_reason,
        full_detail=row.full_detail or "",
        priorities=row.priorities,
        ack_history=row.ack_history,
        schema=row.schema_name,
        sealed=tuple(
            SealedPartition(
                number=partition.partition,
                group=partition.group_number,
                lane=partition.lane,
                generation=partition.generation,
                base=partition.base,
                sealed_at=partition.sealed_at,
                sealed_time_us=partition.sealed_time_us or 0,
                of_partitions=partition.of_partitions or 0,
            )
            for partition in row.partitions
            if partition.sealed_at is not None
        ),
    )
