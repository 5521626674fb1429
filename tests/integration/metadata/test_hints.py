"""Hints and the fleet they are about, on a real Postgres."""

from __future__ import annotations

import asyncio

import pytest

from metadata.delivery import loads
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.hints import HintRepository
from metadata.errors import LeaseLost
from metadata.ids import new_uid
from metadata.locks.locks import Lock, LockRepository
from tests.integration.metadata.world import HELD_S, World, keys_of

LOAD = loads.Load(0.5, 0.01, 100.0, 1e6, 3, 2)


async def lock_of(world: World) -> Lock:
    lock = await LockRepository(world.database).take("scheduler", new_uid())
    assert lock is not None
    return lock


async def test_hints_are_set_replaced_and_taken_away_together(world: World) -> None:
    first, second = keys_of(await world.topic())
    split = first._replace(subscription_uid=new_uid())
    here, there = await world.forwarder(), await world.forwarder()
    hints, lock = HintRepository(world.database), await lock_of(world)
    await hints.replace(lock, {first: (here, "hot"), split: (there, "backlog")})
    assert await hints.all() == {first: here, split: there}
    await hints.replace(lock, {first: (there, "hotter"), second: (here, "hot")}, [split])
    assert await hints.all() == {first: there, second: here}
    listed = await hints.listing()
    assert [(hint.unit, hint.reason) for hint in listed] == [(first, "hotter"), (second, "hot")]
    assert all(0 <= hint.age_s < 60 for hint in listed)


async def test_a_scheduler_that_lost_its_lock_changes_no_hint(world: World) -> None:
    (key,) = keys_of(await world.topic(partitions=1))
    here = await world.forwarder()
    hints, locks = HintRepository(world.database), LockRepository(world.database)
    old = await lock_of(world)
    await hints.replace(old, {key: (here, "hot")})
    await locks.release(old)
    await lock_of(world)
    with pytest.raises(LeaseLost):
        await hints.replace(old, {}, [key])
    with pytest.raises(LeaseLost):
        await hints.prune(old)
    assert await hints.all() == {key: here}


async def test_hints_of_the_dead_and_of_what_is_gone_are_pruned(world: World) -> None:
    topic = await world.topic(partitions=3)
    subscription = await world.subscription(topic)
    first, second, third = keys_of(topic)
    alive, dead = await world.forwarder(), await world.forwarder()
    hints, lock = HintRepository(world.database), await lock_of(world)
    split = third._replace(subscription_uid=subscription.uid)
    stray = third._replace(subscription_uid=new_uid())
    wanted = {first: alive, second: dead, split: alive, stray: alive, third: new_uid()}
    await hints.replace(lock, {unit: (where, "hot") for unit, where in wanted.items()})
    assert await hints.prune(lock) == 2
    await world.end_lease(dead)
    assert await hints.prune(lock) == 1
    assert await hints.all() == {first: alive, split: alive}


async def test_hints_go_with_their_topic_and_none_is_made_for_one_that_is_gone(
    world: World,
) -> None:
    topic = await world.topic(partitions=1)
    (key,) = keys_of(topic)
    here = await world.forwarder()
    hints, lock = HintRepository(world.database), await lock_of(world)
    await hints.replace(lock, {key: (here, "hot")})
    await world.topics.mark_deleting(world.tenant_id, topic.name)
    await world.topics.remove(world.tenant_id, topic.uid)
    assert await hints.all() == {}
    await hints.replace(lock, {key: (here, "hot")})
    assert await hints.all() == {}


async def test_hints_while_topics_are_deleted(world: World) -> None:
    """Nothing deadlocks and nothing is refused: a hint is set, or its topic is gone."""
    topics = [await world.topic(f"topic-{number}", 2) for number in range(8)]
    here = await world.forwarder()
    hints, lock = HintRepository(world.database), await lock_of(world)
    wanted = {key: (here, "hot") for topic in topics for key in keys_of(topic)}

    async def delete() -> None:
        for topic in topics:
            await world.topics.mark_deleting(world.tenant_id, topic.name)
            await world.topics.remove(world.tenant_id, topic.uid)

    await asyncio.gather(delete(), *(hints.replace(lock, wanted) for _ in range(8)))
    assert await hints.all() == {}


async def test_the_fleet_tells_loads_and_owners(world: World) -> None:
    topic = await world.topic(partitions=2)
    first, second = keys_of(topic)
    elder = await world.forwarder()
    younger, dead = await world.forwarder(), await world.forwarder()
    await world.assignments.claim(elder, [first])
    await world.end_lease(dead)
    await report(world, elder, loads.encode(LOAD).decode())
    fleet = FleetRepository(world.database)
    live = {each.incarnation: each for each in await fleet.live()}
    assert list(live) == [elder, younger]
    assert live[elder].load == LOAD
    assert live[younger].load is None
    assert live[elder].role == "subscribe"
    assert live[elder].weight == 1.0
    assert 0 <= live[younger].age_s <= live[elder].age_s < 60
    assert 0 < live[elder].remaining_s <= HELD_S
    owned = await fleet.owned([(topic.tenant_id, topic.uid)])
    assert owned == {first: elder, second: None}
    assert await fleet.owned([(topic.tenant_id, new_uid())]) == {}


async def test_names_are_told_by_tenant_and_uid(world: World) -> None:
    topic = await world.topic()
    subscription = await world.subscription(topic)
    fleet = FleetRepository(world.database)
    wanted = [(world.tenant_id, uid) for uid in (topic.uid, subscription.uid, new_uid())]
    assert await fleet.names(wanted) == {topic.uid: "orders", subscription.uid: "billing"}
    assert await fleet.names([(new_uid(), topic.uid)]) == {}


async def test_a_report_of_another_shape_is_none(world: World) -> None:
    strange = await world.forwarder()
    await report(world, strange, '{"cpu": "busy"}')
    (live,) = await FleetRepository(world.database).live()
    assert live.load is None


async def report(world: World, incarnation: bytes, load: str) -> None:
    """Report a load as a renewal does."""

    async def work(connection: object) -> None:
        await connection.execute(  # type: ignore[attr-defined]
            "UPDATE forwarders SET load = $2::jsonb WHERE incarnation = $1", incarnation, load
        )

    await world.database.statement(work, writes=True)
