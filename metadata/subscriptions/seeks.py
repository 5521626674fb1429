"""Moving a subscription's cursors: one transaction, which starts a new generation of it.

Invariants:
- A flush of the generation before writes nothing once this has committed: it names its generation,
  and waits for the row locks taken here.
- No cursor is set below what is trimmed: the partition's rows are locked as the truncator and a new
  subscription lock them, and `trimmed_to` is read under that lock.
- The books balance at the commit: a cursor begins anew at its target, with what a snapshot says is
  acked above it. The rows of `delivery_leases` it had are gone, and so are those of `deliveries`,
  but for the holes that it begins with.
- A seek back lets go of nothing that is unacked. The open deliveries of the cursor that lie below
  its new floor stay open, as holes: those below the trimmed offset are stored only for their rows.
  Only a seek forward, and one to the end, passes over unacked messages.

Locks are taken in the order of everyone else (metadata/changes.py), rows in this: partitions, then
cursors by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import Range as PostgresRange
from sqlalchemy.ext.asyncio import AsyncSession

from metadata import changes
from metadata.database import Database
from metadata.delivery.deliveries import Range, Reason
from metadata.errors import NotFound
from metadata.models import (
    CursorRow,
    DeliveryLeaseRow,
    DeliveryRow,
    EraRow,
    PartitionRow,
    SubscriptionRow,
)

ERA_SHIFT = 16
"""Generations of an era begin at `era << ERA_SHIFT`; they fit 31 bits."""

LaneOf = tuple[int, int]
"""Partition and lane."""


@dataclass(frozen=True, slots=True)
class Target:
    """The new place of one cursor.

    For a snapshot, `acked` are its settled ranges from `offset` on, and its deliveries end at
    `read_to`. `passes_open`: open deliveries below `offset` are passed over, wherever the cursor is
    now.
    """

    offset: int
    read_to: int | None = None
    acked: tuple[Range, ...] = ()
    passes_open: bool = False


@dataclass(frozen=True, slots=True)
class CursorTarget:
    """A target as a cursor row can hold it. `holes` lie below `floor` and are still stored."""

    start: int
    floor: int
    read_to: int
    acked: tuple[Range, ...]
    holes: tuple[int, ...] = ()

    def settled(self) -> int:
        """Return the number of settled offsets from `start` on."""
        above = sum(high - low for low, high in self.acked)
        return self.floor - self.start - len(self.holes) + above


def place(
    target: Target, trimmed_to: int, kept: Sequence[int] = (), still_open: Iterable[int] = ()
) -> CursorTarget:
    """Return the target, not below the trimmed offsets.

    `kept` are offsets below `trimmed_to` that are stored all the same; those among them that a
    snapshot has not settled stay open, and so do those of `still_open` below the floor.
    """
    floor = max(target.offset, trimmed_to)
    acked = tuple((max(low, floor), high) for low, high in target.acked if high > floor)
    read_to = max(floor, target.read_to or 0, *(high for _, high in acked), 0)
    open_below = {offset for offset in still_open if offset < floor}
    if target.read_to is not None:
        open_below |= {
            offset
            for offset in kept
            if target.offset <= offset < floor and not _inside(target.acked, offset)
        }
    holes = tuple(sorted(open_below))
    if acked and acked[0][0] == floor:
        floor, acked = acked[0][1], acked[1:]
    return CursorTarget(min((floor, *holes)), floor, read_to, acked, holes)


class Position(NamedTuple):
    """The place of a cursor: its floor, and the number of settled offsets from there on,
    less the unsettled ones below it.
    """

    floor: int
    settled: int


@dataclass(frozen=True, slots=True)
class SeekResult:
    """The generation that a seek began, and where each cursor is in it."""

    generation: int
    positions: Mapping[LaneOf, Position]


class SeekRepository:
    """Moves cursors; never those of one partition apart from the change of generation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def seek(
        self,
        tenant_id: bytes,
        subscription_uid: bytes,
        targets: Mapping[LaneOf, Target],
        *,
        dry_run: bool = False,
    ) -> SeekResult:
        """Sets the cursors that have a target; the others stay where they are. A dry run does the
        same and takes it back, takes no version, and waits for nobody who changes something else.

        NotFound when the subscription is gone.
        """

        async def work(session: AsyncSession) -> SeekResult:
            if not dry_run:
                await changes.wait_turn(session, tenant_id)
            row = await session.get(SubscriptionRow, (tenant_id, subscription_uid))
            if row is None:
                raise NotFound("subscription", subscription_uid.hex())
            trimmed = await lock_partitions(session, tenant_id, row.topic_uid)
            cursors = await _lock_cursors(session, row)
            row.generation = await _next_generation(session, row.generation)
            row.updated_at = func.now()
            kept = await kept_offsets(session, row, targets, trimmed)
            still_open = await _still_open(session, cursors, targets, trimmed)
            await _forget(session, cursors, targets)
            for cursor in cursors:
                cursor.generation = row.generation
                lane = (cursor.partition, cursor.lane)
                if lane in targets:
                    keys = still_open.get(lane, {})
                    placed = place(targets[lane], trimmed.get(lane, 0), kept.get(lane, ()), keys)
                    set_position(cursor, placed)
                    session.add_all(hole_rows(cursor, placed, keys))
            positions = {(each.partition, each.lane): _position(each) for each in cursors}
            if not dry_run:
                row.version = await changes.tell(session, changes.of_subscription(row))
            return SeekResult(row.generation, positions)

        if dry_run:
            return await self._database.of(tenant_id).read(work)
        return await self._database.of(tenant_id).write(work)


def _position(cursor: CursorRow) -> Position:
    above = sum(piece.upper - piece.lower for piece in cursor.acked)
    return Position(cursor.floor, above - cursor.exceptions)


async def lock_partitions(
    session: AsyncSession, tenant_id: bytes, topic_uid: bytes
) -> dict[LaneOf, int]:
    """Keep the truncator out until this transaction ends; return the trimmed offset of each
    lane.
    """
    rows = await session.execute(
        select(PartitionRow.partition, PartitionRow.lane, PartitionRow.trimmed_to)
        .where(PartitionRow.tenant_id == tenant_id, PartitionRow.topic_uid == topic_uid)
        .order_by(PartitionRow.partition, PartitionRow.lane, PartitionRow.generation)
        .with_for_update(read=True)
    )
    trimmed: dict[LaneOf, int] = {}
    for partition, lane, trimmed_to in rows:
        trimmed[partition, lane] = max(trimmed_to, trimmed.get((partition, lane), 0))
    return trimmed


async def kept_offsets(
    session: AsyncSession,
    row: SubscriptionRow,
    targets: Mapping[LaneOf, Target],
    trimmed: Mapping[LaneOf, int],
) -> dict[LaneOf, list[int]]:
    """Return stored offsets in lanes whose target is a snapshot that reaches below the trimmed
    offset.

    Some subscription has stepped over them; they are stored until it is done with them.
    """
    kept: dict[LaneOf, list[int]] = {}
    for (partition, lane), target in sorted(targets.items()):
        upto = trimmed.get((partition, lane), 0)
        if target.read_to is None or target.offset >= upto:
            continue
        found = await session.scalars(
            select(DeliveryRow.message_offset)
            .distinct()
            .join(
                CursorRow,
                (CursorRow.tenant_id == DeliveryRow.tenant_id)
                & (CursorRow.subscription_uid == DeliveryRow.subscription_uid)
                & (CursorRow.partition == DeliveryRow.partition)
                & (CursorRow.lane == DeliveryRow.lane),
            )
            .where(
                CursorRow.tenant_id == row.tenant_id,
                CursorRow.topic_uid == row.topic_uid,
                CursorRow.partition == partition,
                CursorRow.lane == lane,
                DeliveryRow.message_offset >= target.offset,
                DeliveryRow.message_offset < upto,
            )
        )
        kept[partition, lane] = list(found)
    return kept


def set_position(cursor: CursorRow, placed: CursorTarget) -> None:
    """Set the row to the placed position: only the offsets in `placed` are settled, all of
    them acked.
    """
    cursor.start_offset = placed.start
    cursor.floor = placed.floor
    cursor.read_to = placed.read_to
    cursor.acked = [PostgresRange(low, high) for low, high in placed.acked]
    cursor.exceptions = len(placed.holes)
    cursor.acked_total = placed.settled()
    cursor.filtered_total = 0
    cursor.skipped_total = 0
    cursor.expired_total = 0
    cursor.dead_lettered_total = 0


def hole_rows(
    cursor: CursorRow, placed: CursorTarget, keys: Mapping[int, int | None] | None = None
) -> list[DeliveryRow]:
    """Return the rows of the holes; `keys` are the hashes of their ordering keys, where known."""
    keys = keys or {}
    return [
        DeliveryRow(
            tenant_id=cursor.tenant_id,
            subscription_uid=cursor.subscription_uid,
            partition=cursor.partition,
            lane=cursor.lane,
            message_offset=offset,
            attempts=0,
            reason=Reason.HOLE.value,
            key_hash=keys.get(offset),
        )
        for offset in placed.holes
    ]


async def _next_generation(session: AsyncSession, present: int) -> int:
    """Return the next generation: none that was begun before Postgres lost history, whose
    fence holds.
    """
    era = await session.scalar(select(func.max(EraRow.era))) or 0
    return max(present + 1, era << ERA_SHIFT)


async def _lock_cursors(session: AsyncSession, row: SubscriptionRow) -> Sequence[CursorRow]:
    """Lock cursors in key order, like a flush, with `FOR NO KEY UPDATE`, so that deliveries
    can go.
    """
    found = await session.scalars(
        select(CursorRow)
        .where(CursorRow.tenant_id == row.tenant_id, CursorRow.subscription_uid == row.uid)
        .order_by(CursorRow.partition, CursorRow.lane)
        .with_for_update(key_share=True)
    )
    return found.all()


async def _still_open(
    session: AsyncSession,
    cursors: Sequence[CursorRow],
    targets: Mapping[LaneOf, Target],
    trimmed: Mapping[LaneOf, int],
) -> dict[LaneOf, dict[int, int | None]]:
    """Return the open deliveries of the cursors that go back: by offset, the hash of the key."""
    found: dict[LaneOf, dict[int, int | None]] = {}
    for cursor in cursors:
        lane = (cursor.partition, cursor.lane)
        target = targets.get(lane)
        if target is None or target.read_to is not None or target.passes_open:
            continue
        if target.offset > max(cursor.floor, trimmed.get(lane, 0)):
            continue
        rows = await session.execute(
            select(DeliveryRow.message_offset, DeliveryRow.key_hash).where(
                DeliveryRow.tenant_id == cursor.tenant_id,
                DeliveryRow.subscription_uid == cursor.subscription_uid,
                DeliveryRow.partition == cursor.partition,
                DeliveryRow.lane == cursor.lane,
            )
        )
        found[lane] = {offset: key_hash for offset, key_hash in rows}
    return found


async def _forget(
    session: AsyncSession, cursors: Sequence[CursorRow], targets: Mapping[LaneOf, Target]
) -> None:
    """Delete the rows of deliveries and leases of the cursors that move."""
    for cursor in cursors:
        if (cursor.partition, cursor.lane) not in targets:
            continue
        for table in (DeliveryRow, DeliveryLeaseRow):
            await session.execute(
                delete(table).where(
                    table.tenant_id == cursor.tenant_id,
                    table.subscription_uid == cursor.subscription_uid,
                    table.partition == cursor.partition,
                    table.lane == cursor.lane,
                )
            )


def _inside(ranges: Sequence[Range], offset: int) -> bool:
    return any(low <= offset < high for low, high in ranges)
