"""Rows brought up to what the store has, after Postgres went back in time, or forgot a topic.

Only the one that repairs calls these, on connections of its own, while no other process uses any;
except `adopt`, which is an operator's and safe at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import Range as PostgresRange
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.delivery.deliveries import Reason
from metadata.errors import Conflict
from metadata.models import CursorRow, DeliveryRow, PartitionRow, TopicRow
from metadata.topics.topics import (
    named,
    new_assignment,
    new_partition,
    new_topic,
    topic_of,
    turn,
)
from metadata.types import Partition, Topic, TopicSpec, TopicState

LaneOf = tuple[int, int]
"""A partition's number, and a lane of it."""


class Reach(NamedTuple):
    """The lowest floor of all cursors of a lane, and the highest offset that any has read."""

    floor: int
    read_to: int


class RecoveryRepository:
    """Across tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def topics(self) -> list[Topic]:
        """Return all topics, in every state."""

        async def work(session: AsyncSession) -> list[Topic]:
            rows = await session.scalars(select(TopicRow).order_by(TopicRow.uid))
            return [topic_of(row) for row in rows]

        return await self._database.platform.read(work)

    async def reach(self) -> dict[bytes, dict[LaneOf, Reach]]:
        """Return the reach of each lane by topic uid; lanes without a cursor are missing."""
        statement = select(
            CursorRow.topic_uid,
            CursorRow.partition,
            CursorRow.lane,
            func.min(CursorRow.floor),
            func.max(CursorRow.read_to),
        ).group_by(CursorRow.topic_uid, CursorRow.partition, CursorRow.lane)

        async def work(session: AsyncSession) -> dict[bytes, dict[LaneOf, Reach]]:
            found: dict[bytes, dict[LaneOf, Reach]] = {}
            for uid, number, lane, floor, read_to in await session.execute(statement):
                found.setdefault(uid, {})[number, lane] = Reach(floor, read_to)
            return found

        return await self._database.platform.read(work)

    async def step_over(
        self, topic: Topic, place: LaneOf, first: int, kept: Collection[int]
    ) -> int:
        """Raise each floor of a lane that is below `first` to it, and return the number of rows
        that were made. Idempotent.

        The store still has the offsets `kept`: unless they are settled, each gets a row of
        `deliveries`, so that it is delivered. The other offsets that are passed over count as
        expired.
        """

        async def work(session: AsyncSession) -> int:
            cursors = await session.scalars(
                select(CursorRow)
                .where(
                    CursorRow.tenant_id == topic.tenant_id,
                    CursorRow.topic_uid == topic.uid,
                    CursorRow.partition == place[0],
                    CursorRow.lane == place[1],
                    CursorRow.floor < first,
                )
                .order_by(CursorRow.subscription_uid)
                .with_for_update(key_share=True)
            )
            made = 0
            for cursor in cursors.all():
                holes = _lift(cursor, first, kept)
                session.add_all(_hole(cursor, offset) for offset in holes)
                made += len(holes)
            return made

        return await self._database.of(topic.tenant_id).write(work)

    async def adopt(
        self,
        tenant_id: bytes,
        uid: bytes,
        spec: TopicSpec,
        oldest: Sequence[Partition],
        trimmed_to: Mapping[LaneOf, int],
    ) -> Topic:
        """Create an active topic with that uid whose open generations are `oldest`, or return the
        existing one.

        Raises Conflict if another topic has the name.
        """

        async def work(session: AsyncSession) -> Topic:
            await changes.wait_turn(session, tenant_id)
            present = await session.get(TopicRow, (tenant_id, uid))
            if present is not None:
                return topic_of(present)
            holder = await named(session, tenant_id, spec.name)
            if holder is not None:
                raise Conflict("topic", spec.name, "exists already", topic_of(holder))
            row = new_topic(tenant_id, uid, spec, TopicState.ACTIVE)
            row.partitions = [_partition_row(row, part, trimmed_to) for part in oldest]
            session.add(row)
            await session.flush()
            session.add_all(new_assignment(row, part.number) for part in oldest if not part.lane)
            return await turn(session, row, TopicState.ACTIVE)

        return await self._database.of(tenant_id).write(work)


def _lift(cursor: CursorRow, first: int, kept: Collection[int]) -> list[int]:
    """Moves the row; the offsets that its floor stepped over."""
    settled = [(one.lower, one.upper) for one in cursor.acked]
    below = sum(max(0, min(high, first) - low) for low, high in settled)
    holes = [
        offset
        for offset in sorted(set(kept))
        if cursor.floor <= offset < first and not any(low <= offset < high for low, high in settled)
    ]
    cursor.expired_total += first - cursor.floor - below - len(holes)
    cursor.exceptions += len(holes)
    cursor.floor = first
    cursor.read_to = max(cursor.read_to, first)
    cursor.acked = [PostgresRange(max(low, first), high) for low, high in settled if high > first]
    return holes


def _hole(cursor: CursorRow, offset: int) -> DeliveryRow:
    return DeliveryRow(
        tenant_id=cursor.tenant_id,
        subscription_uid=cursor.subscription_uid,
        partition=cursor.partition,
        lane=cursor.lane,
        message_offset=offset,
        attempts=0,
        reason=Reason.HOLE.value,
    )


def _partition_row(
    topic: TopicRow, part: Partition, trimmed_to: Mapping[LaneOf, int]
) -> PartitionRow:
    row = new_partition(topic, part.number, part.lane, part.group, part.generation)
    row.base = part.base
    row.trimmed_to = trimmed_to.get((part.number, part.lane), part.base)
    return row
