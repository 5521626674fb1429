"""Moving a partition to another group, and giving a topic more partitions: the intent and its end.
All lanes of a partition go together, so that they stay in one group.

The steps between the two are in the store (seal the present queues, make the next ones), can be
repeated, and depend on nothing but the intent: so any process that finds one continues, also
several at once. The end comes in one transaction: the sealed generations with their last offsets,
the open ones, and for new partitions an owner's row and a cursor at 0 of every subscription.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, cast, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Connection, Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.models import (
    CursorRow,
    PartitionRow,
    PlacementRow,
    SubscriptionRow,
    TopicRow,
)
from metadata.topics.topics import named, new_assignment, new_partition, topic_of, turn
from metadata.types import (
    Partition,
    Placement,
    SealedPartition,
    Topic,
    TopicState,
)
from openapi.topics import PlacementKind

LaneOf = tuple[int, int]
"""A partition's number, and a lane of it."""

_ID_MARGIN_S = 300.0
"""Beyond the dedup window, which the store counts by its own log time."""
_NOW_US = cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
_COLLECTABLE = """
SELECT old.tenant_id, old.topic_uid, old.partition, old.group_number, old.lane, old.generation,
    old.base, old.sealed_at, old.sealed_time_us, old.of_partitions
FROM partitions AS old
JOIN topics ON topics.tenant_id = old.tenant_id AND topics.uid = old.topic_uid
WHERE topics.state = 'active'
  AND old.sealed_at IS NOT NULL
  AND old.trimmed_to >= old.sealed_at
  AND old.sealed_time_us / 1e6 + 1.25 * topics.dedup_window_s + $1
      < extract(epoch FROM clock_timestamp())
  AND NOT EXISTS (
      SELECT FROM cursors
      JOIN deliveries USING (tenant_id, subscription_uid, partition, lane)
      WHERE cursors.tenant_id = old.tenant_id
        AND cursors.topic_uid = old.topic_uid
        AND cursors.partition = old.partition
        AND cursors.lane = old.lane
        AND deliveries.message_offset >= old.base
        AND deliveries.message_offset < old.sealed_at
  )
  AND NOT EXISTS (
      SELECT FROM forwarded
      WHERE forwarded.tenant_id = old.tenant_id
        AND forwarded.topic_uid = old.topic_uid
        AND forwarded.partition = old.partition
        AND forwarded.lane = old.lane
        AND forwarded.generation = old.generation
  )
ORDER BY old.sealed_time_us
LIMIT $2
"""


# A placement and the partitions that it is about are read by several statements. If it ended
# between them it would seem to be about the partitions that it made, and would seal those.
_AT_ONE_MOMENT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


class Collectable(NamedTuple):
    """A sealed generation whose queue may go."""

    tenant_id: bytes
    topic_uid: bytes
    sealed: SealedPartition


class PlacementRepository:
    """Placements; a topic has at most one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start_move(
        self, tenant_id: bytes, name: str, partition: int, group: int
    ) -> Topic | Placement:
        """Return the intent to move a partition, also if it exists already; the topic if nothing is
        to do.

        Raises NotFound for a topic or partition; Conflict while another placement is open.
        """

        async def work(session: AsyncSession) -> Topic | Placement:
            await changes.wait_turn(session, tenant_id)
            row = await _active(session, tenant_id, name)
            topic = topic_of(row)
            present_lanes = topic.generations(partition)
            if not present_lanes:
                raise NotFound("partition", str(partition))
            wanted = PlacementRow(
                tenant_id=tenant_id,
                topic_uid=row.uid,
                uid=new_uid(),
                kind="move",
                partition=partition,
                partitions=topic.partition_count,
                groups=[group],
            )
            present = await session.get(PlacementRow, (tenant_id, row.uid))
            if present is None and present_lanes[-1].group == group:
                return topic
            return await _started(session, topic, present, wanted)

        return await self._database.of(tenant_id).write(work)

    async def start_grow(
        self, tenant_id: bytes, name: str, groups: Sequence[int]
    ) -> Topic | Placement:
        """Record the intent to have `len(groups)` partitions; present ones stay in their groups.

        Returns the topic if there is nothing to do. Raises NotFound; Conflict while another
        placement is open, and if the topic has more partitions already.
        """

        async def work(session: AsyncSession) -> Topic | Placement:
            await changes.wait_turn(session, tenant_id)
            row = await _active(session, tenant_id, name)
            topic = topic_of(row)
            count = topic.partition_count
            present_groups = [each.group for each in topic.partitions if not each.lane]
            wanted = PlacementRow(
                tenant_id=tenant_id,
                topic_uid=row.uid,
                uid=new_uid(),
                kind="grow",
                partition=None,
                partitions=len(groups),
                groups=[*present_groups, *groups[count:]],
            )
            present = await session.get(PlacementRow, (tenant_id, row.uid))
            if present is None and count == len(groups):
                return topic
            if present is None and count > len(groups):
                raise Conflict("topic", name, f"has {count} partitions", topic)
            return await _started(session, topic, present, wanted)

        return await self._database.of(tenant_id).write(work)

    async def get(self, tenant_id: bytes, topic_uid: bytes) -> Placement | None:
        """Return the open placement of a topic in any state."""

        async def work(session: AsyncSession) -> Placement | None:
            await session.execute(_AT_ONE_MOMENT)
            row = await session.get(PlacementRow, (tenant_id, topic_uid))
            topic = await session.get(TopicRow, (tenant_id, topic_uid))
            return None if row is None or topic is None else _placement(row, topic_of(topic))

        return await self._database.of(tenant_id).read(work)

    async def replay(
        self, topic: Topic, kind: PlacementKind, partition: int | None, groups: Sequence[int]
    ) -> Placement:
        """Write the intent of a placement that the store shows and this database forgot.

        It replaces an open one. Raises NotFound when the topic is gone.
        """

        async def work(session: AsyncSession) -> Placement:
            await changes.wait_turn(session, topic.tenant_id)
            row = await session.get(TopicRow, (topic.tenant_id, topic.uid))
            if row is None:
                raise NotFound("topic", topic.uid.hex())
            present = await session.get(PlacementRow, (topic.tenant_id, topic.uid))
            if present is not None:
                await session.delete(present)
                await session.flush()
            current = topic_of(row)
            wanted = PlacementRow(
                tenant_id=topic.tenant_id,
                topic_uid=topic.uid,
                uid=new_uid(),
                kind=kind,
                partition=partition,
                partitions=current.partition_count if partition is not None else len(groups),
                groups=list(groups),
            )
            session.add(wanted)
            await changes.tell(session)
            return _placement(wanted, current)

        return await self._database.of(topic.tenant_id).write(work)

    async def unfinished(self, limit: int = 100) -> list[Placement]:
        """Return placements of active topics of any tenant, oldest first; other processes
        may carry some out.
        """
        statement = (
            select(PlacementRow, TopicRow)
            .join(
                TopicRow,
                (TopicRow.tenant_id == PlacementRow.tenant_id)
                & (TopicRow.uid == PlacementRow.topic_uid),
            )
            .where(TopicRow.state == TopicState.ACTIVE.value)
            .order_by(PlacementRow.created_at)
            .limit(limit)
        )

        async def work(session: AsyncSession) -> list[Placement]:
            await session.execute(_AT_ONE_MOMENT)
            rows = await session.execute(statement)
            return [_placement(row, topic_of(topic)) for row, topic in rows]

        return await self._database.platform.read(work)

    async def finish(self, placement: Placement, sealed_at: Mapping[LaneOf, int]) -> Topic:
        """Makes what was sealed (`sealed_at`: its end, by partition and lane) the past and what was
        opened the present. Idempotent; NotFound when the topic is going.
        """
        tenant_id, topic_uid = placement.topic.tenant_id, placement.topic.uid

        async def work(session: AsyncSession) -> Topic:
            await changes.wait_turn(session, tenant_id)
            topic = await session.get(TopicRow, (tenant_id, topic_uid))
            if topic is None or topic.state != TopicState.ACTIVE.value:
                raise NotFound("topic", topic_uid.hex())
            row = await session.get(PlacementRow, (tenant_id, topic_uid))
            if row is None or row.uid != placement.uid:
                return topic_of(topic)
            before = await _open_rows(session, topic)
            added: list[LaneOf] = []
            for opening in placement.opening:
                place = opening.number, opening.lane
                old = before.get(place)
                made = new_partition(topic, *place, opening.group, opening.generation)
                if old is None:
                    added.append(place)
                else:
                    assert old.generation + 1 == opening.generation
                    old.sealed_at = made.base = sealed_at[place]
                    old.sealed_time_us = _NOW_US
                    old.of_partitions = len(before) // topic.priorities
                    made.trimmed_to = old.trimmed_to
                session.add(made)
            for number in sorted({number for number, _ in added}):
                session.add(new_assignment(topic, number))
            await _add_cursors(session, topic, added)
            await session.delete(row)
            await session.flush()
            return await turn(session, topic, TopicState.ACTIVE)

        return await self._database.of(tenant_id).write(work)

    async def collectable(self, limit: int = 100) -> list[Collectable]:
        """Return sealed generations that are wholly trimmed, and whose ids the store has forgotten.

        No offset in them is kept. Only the store knows whether messages are still staged in them.
        """

        async def work(connection: Connection) -> list[Collectable]:
            rows = await connection.fetch(_COLLECTABLE, _ID_MARGIN_S, limit)
            return [Collectable(row[0], row[1], SealedPartition(*tuple(row)[2:])) for row in rows]

        return await self._database.statement(work, writes=False)

    async def forget_generation(
        self, tenant_id: bytes, topic_uid: bytes, number: int, lane: int, generation: int
    ) -> None:
        """Drops the row of a sealed generation whose queue is gone. Idempotent."""

        async def work(session: AsyncSession) -> None:
            await changes.wait_turn(session, tenant_id)
            topic = await session.get(TopicRow, (tenant_id, topic_uid))
            if topic is None:
                return
            await session.execute(
                delete(PartitionRow).where(
                    PartitionRow.tenant_id == tenant_id,
                    PartitionRow.topic_uid == topic_uid,
                    PartitionRow.partition == number,
                    PartitionRow.lane == lane,
                    PartitionRow.generation == generation,
                    PartitionRow.sealed_at.is_not(None),
                )
            )
            await turn(session, topic, TopicState(topic.state))

        await self._database.of(tenant_id).write(work)


async def _active(session: AsyncSession, tenant_id: bytes, name: str) -> TopicRow:
    row = await named(session, tenant_id, name)
    if row is None or row.state != TopicState.ACTIVE.value:
        raise NotFound("topic", name)
    return row


async def _started(
    session: AsyncSession, topic: Topic, present: PlacementRow | None, wanted: PlacementRow
) -> Placement:
    if present is None:
        session.add(wanted)
        await changes.tell(session)
        return _placement(wanted, topic)
    same = (present.kind, present.partition, present.partitions) == (
        wanted.kind,
        wanted.partition,
        wanted.partitions,
    )
    if not same or (present.partition is not None and present.groups != wanted.groups):
        raise Conflict("topic", topic.name, "is being moved or grown", topic)
    return _placement(present, topic)


def _placement(row: PlacementRow, topic: Topic) -> Placement:
    """Return the intent in terms of the present partitions, which stay until it is done."""
    kind = row.kind
    numbers = range(row.partitions) if row.partition is None else (row.partition,)
    present = {(each.number, each.lane): each for each in topic.partitions}
    sealing = tuple(each for each in topic.partitions if each.number in numbers)
    opening = tuple(
        Partition(
            number=number,
            group=group,
            lane=lane,
            generation=present[number, lane].generation + 1 if (number, lane) in present else 0,
        )
        for number, group in zip(numbers, row.groups, strict=True)
        for lane in range(topic.priorities)
    )
    return Placement(row.uid, kind, topic, sealing, opening)


async def _open_rows(session: AsyncSession, topic: TopicRow) -> dict[LaneOf, PartitionRow]:
    """Return the open rows, locked as the truncator locks them, in key order."""
    rows = await session.scalars(
        select(PartitionRow)
        .where(
            PartitionRow.tenant_id == topic.tenant_id,
            PartitionRow.topic_uid == topic.uid,
            PartitionRow.sealed_at.is_(None),
        )
        .order_by(PartitionRow.partition, PartitionRow.lane, PartitionRow.generation)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return {(row.partition, row.lane): row for row in rows}


async def _add_cursors(session: AsyncSession, topic: TopicRow, added: Sequence[LaneOf]) -> None:
    """Add cursors of every subscription, under the epoch of the assignments made beside them."""
    if not added:
        return
    subscriptions = await session.execute(
        select(SubscriptionRow.uid, SubscriptionRow.generation)
        .where(SubscriptionRow.tenant_id == topic.tenant_id)
        .where(SubscriptionRow.topic_uid == topic.uid)
        .order_by(SubscriptionRow.uid)
    )
    for uid, generation in subscriptions.all():
        for number, lane in added:
            session.add(
                CursorRow(
                    tenant_id=topic.tenant_id,
                    subscription_uid=uid,
                    partition=number,
                    lane=lane,
                    topic_uid=topic.uid,
                    epoch_era=0,
                    epoch_n=0,
                    generation=generation,
                    start_offset=0,
                    floor=0,
                    read_to=0,
                    acked=[],
                    acked_total=0,
                    filtered_total=0,
                    skipped_total=0,
                    expired_total=0,
                    dead_lettered_total=0,
                )
            )
