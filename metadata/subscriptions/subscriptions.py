"""Subscriptions; their cursor rows are made with them and go with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from metadata import changes
from metadata.counts import NO_LIMITS, SUBSCRIPTIONS, Defaults, require_room
from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.models import AssignmentRow, CursorRow, DeliveryRow, SubscriptionRow, TopicRow
from metadata.paging import name_after, page_of
from metadata.subscriptions import push_config
from metadata.subscriptions.seeks import (
    LaneOf,
    Target,
    hole_rows,
    kept_offsets,
    lock_partitions,
    place,
    set_position,
)
from metadata.subscriptions.skip_rules import active_of
from metadata.types import (
    WHOLE,
    Page,
    RetryPolicy,
    Subscription,
    SubscriptionSpec,
    TopicState,
)
from openapi.contract import fields_of
from openapi.subscriptions import PlainSettings

_Found = Row[SubscriptionRow, str]


class SubscriptionRepository:
    """Names are unique per tenant; a deleted name is free at once."""

    def __init__(self, database: Database, limits: Defaults = NO_LIMITS) -> None:
        """`limits` are those of the platform, for tenants without their own."""
        self._database = database
        self._limits = limits

    async def create(
        self,
        tenant_id: bytes,
        topic_uid: bytes,
        spec: SubscriptionSpec,
        floors: Mapping[LaneOf, int | Target],
        uid: bytes | None = None,
    ) -> Subscription:
        """Create a subscription with a cursor per partition and lane. It begins at
        `floors[partition, lane]` (0 where there is none), or at the first offset that is kept; a
        target may be of a snapshot. `uid` is a new one that the caller had to know before.

        Raise NotFound if the topic isn't active any more, Conflict if the name is taken
        (`existing` is the subscription that has it), and QuotaExceeded.
        """

        async def work(session: AsyncSession) -> Subscription:
            await changes.wait_turn(session, tenant_id)
            topic = await session.get(TopicRow, (tenant_id, topic_uid))
            if topic is None or topic.state != TopicState.ACTIVE.value:
                raise NotFound("topic", topic_uid.hex())
            existing = await _named(session, tenant_id, spec.name)
            if existing is not None:
                raise Conflict("subscription", spec.name, "exists already", _subscription(existing))
            count = subscription_count(tenant_id)
            await require_room(session, tenant_id, SUBSCRIPTIONS, count, self._limits)
            row = _new_row(tenant_id, topic_uid, uid or new_uid(), spec)
            session.add(row)
            await session.flush()
            await _add_cursors(session, row, floors)
            await session.flush()
            await session.refresh(row)
            row.version = await changes.tell(session, changes.of_subscription(row))
            return _subscription_of(row, topic.name)

        return await self._database.of(tenant_id).write(work)

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[Subscription], SubscriptionSpec],
        *,
        if_version: int | None = None,
    ) -> Subscription:
        """Change the subscription as `change` says, and return it. Name, delivery, order and start
        stay as they are. Without a difference there is no new version. `change` may be called
        again, and an error that it raises leaves the subscription as it was.

        Raise NotFound, and Conflict if `if_version` is another.
        """

        async def work(session: AsyncSession) -> Subscription:
            await changes.wait_turn(session, tenant_id)
            found = await _named(session, tenant_id, name)
            if found is None:
                raise NotFound("subscription", name)
            row = found[0]
            present = (await _with_rules(session, tenant_id, [_subscription(found)]))[0]
            if if_version is not None and row.version != if_version:
                raise Conflict("subscription", name, f"is at version {row.version}", present)
            columns = _columns(change(present))
            if all(getattr(row, column) == value for column, value in columns.items()):
                return present
            for column, value in columns.items():
                setattr(row, column, value)
            row.updated_at = func.now()
            await session.flush()
            await session.refresh(row)
            row.version = await changes.tell(session, changes.of_subscription(row))
            changed = _subscription_of(row, present.topic_name)
            return replace(changed, skip_rules=present.skip_rules)

        return await self._database.of(tenant_id).write(work)

    async def get(self, tenant_id: bytes, name: str) -> Subscription:
        """Return the subscription of this name. Raise NotFound where there is none."""

        async def work(session: AsyncSession) -> Subscription:
            found = await _named(session, tenant_id, name)
            if found is None:
                raise NotFound("subscription", name)
            return (await _with_rules(session, tenant_id, [_subscription(found)]))[0]

        return await self._database.of(tenant_id).read(work)

    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> tuple[Subscription, ...]:
        """Return all subscriptions of one topic, by name."""
        statement = (
            _with_topic_name(tenant_id)
            .where(SubscriptionRow.topic_uid == topic_uid)
            .order_by(SubscriptionRow.name)
        )

        async def work(session: AsyncSession) -> tuple[Subscription, ...]:
            found = [_subscription(item) for item in await session.execute(statement)]
            return tuple(await _with_rules(session, tenant_id, found))

        return await self._database.of(tenant_id).read(work)

    async def page(
        self,
        tenant_id: bytes,
        *,
        topic_uid: bytes | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Subscription]:
        """Return a page of subscriptions, by name. Raise BadPageToken."""
        statement = (
            _with_topic_name(tenant_id)
            .where(SubscriptionRow.name > name_after(page_token))
            .order_by(SubscriptionRow.name)
            .limit(page_size + 1)
        )
        if topic_uid is not None:
            statement = statement.where(SubscriptionRow.topic_uid == topic_uid)

        async def work(session: AsyncSession) -> Page[Subscription]:
            found = [_subscription(item) for item in await session.execute(statement)]
            return page_of(await _with_rules(session, tenant_id, found), page_size)

        return await self._database.of(tenant_id).read(work)

    async def delete(
        self, tenant_id: bytes, name: str, *, if_version: int | None = None
    ) -> Subscription:
        """Delete the subscription with its cursors and deliveries, and return it as it was.

        Raise NotFound, and Conflict if `if_version` is another.
        """

        async def work(session: AsyncSession) -> Subscription:
            await changes.wait_turn(session, tenant_id)
            found = await _named(session, tenant_id, name)
            if found is None:
                raise NotFound("subscription", name)
            row = found[0]
            if if_version is not None and row.version != if_version:
                raise Conflict(
                    "subscription", name, f"is at version {row.version}", _subscription(found)
                )
            cursors = (
                CursorRow.tenant_id == tenant_id,
                CursorRow.subscription_uid == row.uid,
            )
            await _drop_split(session, row)
            # In key order, like a flush: see the cascade of the delete below.
            await session.execute(
                select(CursorRow.partition)
                .where(*cursors)
                .order_by(CursorRow.partition, CursorRow.lane)
                .with_for_update()
            )
            await session.execute(
                delete(SubscriptionRow).where(
                    SubscriptionRow.tenant_id == tenant_id, SubscriptionRow.uid == row.uid
                )
            )
            await changes.tell(session, changes.of_subscription(row))
            return _subscription(found)

        return await self._database.of(tenant_id).write(work)


def subscription_count(tenant_id: bytes) -> Select[int]:
    return (
        select(func.count())
        .select_from(SubscriptionRow)
        .where(SubscriptionRow.tenant_id == tenant_id)
    )


def _with_topic_name(tenant_id: bytes) -> Select[SubscriptionRow, str]:
    topic_name: InstrumentedAttribute[str] = TopicRow.name
    return (
        select(SubscriptionRow, topic_name)
        .join(
            TopicRow,
            (TopicRow.tenant_id == SubscriptionRow.tenant_id)
            & (TopicRow.uid == SubscriptionRow.topic_uid),
        )
        .where(SubscriptionRow.tenant_id == tenant_id)
    )


async def _named(session: AsyncSession, tenant_id: bytes, name: str) -> _Found | None:
    found = await session.execute(_with_topic_name(tenant_id).where(SubscriptionRow.name == name))
    return found.one_or_none()


def _new_row(
    tenant_id: bytes, topic_uid: bytes, uid: bytes, spec: SubscriptionSpec
) -> SubscriptionRow:
    return SubscriptionRow(
        tenant_id=tenant_id,
        uid=uid,
        topic_uid=topic_uid,
        name=spec.name,
        delivery=spec.delivery,
        ordered=spec.ordered,
        start=spec.start if isinstance(spec.start, str) else dict(spec.start),
        generation=0,
        version=changes.UNTOLD,
        **_columns(spec),
    )


def _columns(spec: SubscriptionSpec) -> dict[str, Any]:
    """Return the columns that may change. The plain settings are those of the contract; a setting
    whose column has another name or shape is here, and in `_subscription_of`."""
    return {
        "type": spec.type,
        "push": push_config.kept(spec.push),
        "ack_deadline_s": spec.ack_deadline_s,
        "retry_min_backoff_s": spec.retry.min_backoff_s,
        "retry_max_backoff_s": spec.retry.max_backoff_s,
        "retry_max_attempts": spec.retry.max_attempts,
        "on_exhausted": spec.on_exhausted,
        "rate_limit": spec.rate_limit,
        "consumer_rate_limit": spec.consumer_rate_limit,
        **fields_of(PlainSettings, spec),
    }


async def _with_rules(
    session: AsyncSession, tenant_id: bytes, subscriptions: Iterable[Subscription]
) -> list[Subscription]:
    """Return the subscriptions with their skip rules."""
    found = list(subscriptions)
    rules = await active_of(session, tenant_id, [one.uid for one in found]) if found else {}
    return [replace(one, skip_rules=rules[one.uid]) if one.uid in rules else one for one in found]


async def _add_cursors(
    session: AsyncSession, row: SubscriptionRow, floors: Mapping[LaneOf, int | Target]
) -> None:
    """Add a cursor per partition and lane, under the epoch of the partition's present owner.

    The shared lock on the assignment makes a claim either come first (and its epoch is read here)
    or wait (and find these rows); the one on the partition keeps the truncator out.
    """
    trimmed = await lock_partitions(session, row.tenant_id, row.topic_uid)
    assignments = await session.execute(
        select(AssignmentRow.partition, AssignmentRow.epoch_era, AssignmentRow.epoch_n)
        .where(AssignmentRow.tenant_id == row.tenant_id, AssignmentRow.topic_uid == row.topic_uid)
        .where(AssignmentRow.subscription_uid == WHOLE)
        .order_by(AssignmentRow.partition)
        .with_for_update(read=True)
    )
    epochs = {partition: (era, n) for partition, era, n in assignments}
    targets = {
        lane: floor if isinstance(floor, Target) else Target(floor)
        for lane, floor in floors.items()
    }
    kept = await kept_offsets(session, row, targets, trimmed)
    holes: list[DeliveryRow] = []
    for (partition, lane), trimmed_to in trimmed.items():
        cursor = CursorRow(
            tenant_id=row.tenant_id,
            subscription_uid=row.uid,
            partition=partition,
            lane=lane,
            topic_uid=row.topic_uid,
            epoch_era=epochs[partition][0],
            epoch_n=epochs[partition][1],
            generation=row.generation,
        )
        target = targets.get((partition, lane), Target(0))
        placed = place(target, trimmed_to, kept.get((partition, lane), ()))
        set_position(cursor, placed)
        session.add(cursor)
        holes += hole_rows(cursor, placed)
    await session.flush()
    session.add_all(holes)


async def _drop_split(session: AsyncSession, row: SubscriptionRow) -> None:
    """Delete the assignments that are split off for the subscription. It also locks the whole
    partitions, like a split does, so that a split comes before this or finds no subscription."""
    units = (AssignmentRow.tenant_id == row.tenant_id, AssignmentRow.topic_uid == row.topic_uid)
    await session.execute(
        select(AssignmentRow.partition)
        .where(*units, AssignmentRow.subscription_uid.in_((WHOLE, row.uid)))
        .order_by(AssignmentRow.partition, AssignmentRow.subscription_uid)
        .with_for_update()
    )
    await session.execute(
        delete(AssignmentRow).where(*units, AssignmentRow.subscription_uid == row.uid)
    )


def _subscription(found: _Found) -> Subscription:
    return _subscription_of(found[0], found[1])


def _subscription_of(row: SubscriptionRow, topic_name: str) -> Subscription:
    return Subscription(
        tenant_id=row.tenant_id,
        uid=row.uid,
        name=row.name,
        topic_uid=row.topic_uid,
        topic_name=topic_name,
        type=row.type,
        delivery=row.delivery,
        ordered=row.ordered,
        ack_deadline_s=row.ack_deadline_s,
        retry=RetryPolicy(row.retry_min_backoff_s, row.retry_max_backoff_s, row.retry_max_attempts),
        start=row.start,
        generation=row.generation,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        on_exhausted=row.on_exhausted,
        rate_limit=row.rate_limit,
        consumer_rate_limit=row.consumer_rate_limit,
        state=row.state,
        state_reason=row.state_reason,
        push=push_config.read(row.push),
        **fields_of(PlainSettings, row),
    )
