"""Waits of the control plane's transactions, and the changes that the feed hears of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from metadata import changes
from metadata.database import Connection
from metadata.ids import new_uid
from metadata.subscriptions.redrives import RedriveRepository, RedriveSpec
from metadata.subscriptions.seeks import SeekRepository, Target
from metadata.subscriptions.skip_rules import SkipRuleRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.topics.placements import PlacementRepository
from metadata.topics.retention import FullFlag, RetentionRepository
from metadata.types import Change, Subscription, Topic, TopicSpec
from tests.integration.metadata.world import World

PATIENCE_S = 3.0
"""Less than a statement may take: who waits for a lock that is never let go is told by then."""


class Held:
    """A topic with a subscription, all rows of which somebody else has locked."""

    def __init__(self, world: World, topic: Topic, subscription: Subscription) -> None:
        self.world, self.topic, self.subscription = world, topic, subscription

    async def update_topic(self) -> object:
        spec = TopicSpec(self.topic.name, labels={"a": "b"})
        return await self.world.topics.update(self.world.tenant_id, "held", lambda _: spec)

    async def delete_topic(self) -> object:
        return await self.world.topics.mark_deleting(self.world.tenant_id, "held")

    async def grow(self) -> object:
        placements = PlacementRepository(self.world.database)
        started = await placements.start_grow(self.world.tenant_id, "held", [0, 1, 2])
        assert not isinstance(started, Topic)
        return await placements.finish(started, {(0, 0): 0, (1, 0): 0})

    async def fill(self) -> object:
        flag = FullFlag(self.world.tenant_id, self.topic.uid, "topic-full", "full")
        await RetentionRepository(self.world.database).set_full([flag])
        return flag

    async def delete_subscription(self) -> object:
        return await self.world.subscriptions.delete(self.world.tenant_id, "held")

    async def seek(self) -> object:
        seeks = SeekRepository(self.world.database)
        return await seeks.seek(self.world.tenant_id, self.subscription.uid, {(0, 0): Target(0)})

    async def pause(self) -> object:
        states = SubscriptionStateRepository(self.world.database)
        paused = "paused"
        return await states.set(self.world.tenant_id, "held", paused, "a test")

    async def skip(self) -> object:
        return await SkipRuleRepository(self.world.database).add(
            self.world.tenant_id, "held", expression="true", reason="a test", created_by="it"
        )

    async def redrive(self) -> object:
        redrives = RedriveRepository(self.world.database)
        spec = RedriveSpec(filter=None, uids=None, destination=None, edit=None, rate=None)
        return await redrives.create(self.world.tenant_id, self.subscription.uid, spec, 1)


CHANGES: tuple[Callable[[Held], Awaitable[object]], ...] = (
    *(Held.update_topic, Held.delete_topic, Held.grow, Held.fill, Held.delete_subscription),
    *(Held.seek, Held.pause, Held.skip, Held.redrive),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_who_waits_before_the_commit_keeps_no_other_tenant_waiting(
    world: World, change: Callable[[Held], Awaitable[object]]
) -> None:
    topic = await world.topic("held")
    held = Held(world, topic, await world.subscription(topic, "held"))
    other = await World.open(world.database, new_uid())
    locked, leave = asyncio.Event(), asyncio.Event()

    async def lock(connection: Connection) -> None:
        for table in ("topics", "partitions", "cursors", "subscriptions"):
            await connection.execute(
                f"SELECT FROM {table} WHERE tenant_id = $1 FOR UPDATE", world.tenant_id
            )
        locked.set()
        await leave.wait()

    locking = asyncio.create_task(world.database.transaction(lock, deadline_s=30))
    await locked.wait()
    changing = asyncio.ensure_future(change(held))
    while not await _waits(world):
        assert not changing.done(), changing.result()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await other.topic("free")
    finally:
        leave.set()
        await locking
    await changing


async def test_versions_are_told_in_the_order_of_commits(world: World) -> None:
    """The feed tells the versions of many tenants without a gap, and each row has the
    version that was told.
    """
    others = [await World.open(world.database, new_uid()) for _ in range(4)]
    told: list[Change] = []

    async def listen(found: object) -> None:
        told.extend(found)  # type: ignore[arg-type]

    await world.feed.start()
    world.feed.add_listener(listen)
    try:
        made = await asyncio.gather(*(_some(each) for each in others))
        await world.feed.catch_up()
    finally:
        await world.feed.close()
    versions = [change.version for change in told]
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    latest = {change.uid: change.version for change in told}
    for topic, subscription in made:
        assert latest[topic.uid] == topic.version
        assert latest[subscription.uid] == subscription.version


async def test_a_transaction_sees_what_the_one_whose_turn_was_before_it_committed(
    world: World,
) -> None:
    """The snapshot of its first statement is taken after it waited."""
    held, leave = asyncio.Event(), asyncio.Event()
    topic = await world.topic("t")

    async def first(connection: Connection) -> None:
        held.set()
        await leave.wait()
        await connection.execute("UPDATE topics SET dedup_window_s = 7 WHERE uid = $1", topic.uid)

    async def second(connection: Connection) -> int:
        found: int = await connection.fetchval(
            "SELECT dedup_window_s FROM topics WHERE uid = $1", topic.uid
        )
        return found

    before = asyncio.create_task(changes.in_turn(world.database, world.tenant_id, first))
    await held.wait()
    after = asyncio.create_task(changes.in_turn(world.database, world.tenant_id, second))
    async with asyncio.timeout(PATIENCE_S):
        while not await _waits(world):
            assert not after.done()
            await asyncio.sleep(0.01)
    leave.set()
    await before
    assert await after == 7


async def _some(world: World) -> tuple[Topic, Subscription]:
    topic = await world.topic("t")
    return topic, await world.subscription(topic, "s")


async def _waits(world: World) -> bool:
    """Return whether a transaction waits for a lock."""

    async def work(connection: Connection) -> bool:
        found: bool = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
        )
        return found

    return await world.database.statement(work, writes=False)
