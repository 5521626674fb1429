"""Partitions and their split-off parts: the owners of their cursors, also when a process
crashes.
"""

from __future__ import annotations

import asyncio

import pytest

from metadata.delivery.leases import LEAVING
from metadata.errors import LeaseLost
from metadata.types import Claim, CursorState, Epoch, Subscription, Topic, Unit
from tests.integration.metadata.world import World, keys_of, settled


async def two(world: World) -> tuple[Topic, Subscription, Subscription]:
    """Make a topic of one partition with two subscriptions."""
    topic = await world.topic(partitions=1)
    return (
        topic,
        await world.subscription(topic, "first"),
        await world.subscription(topic, "second"),
    )


def part_of(topic: Topic, subscription: Subscription) -> Unit:
    return keys_of(topic)[0]._replace(subscription_uid=subscription.uid)


def cursors_of(claim: Claim) -> dict[bytes, CursorState]:
    return {cursor.key.subscription_uid: cursor for cursor in claim.cursors}


async def epochs(world: World, topic: Topic) -> dict[bytes, Epoch]:
    rows = await world.cursors.of_topic(world.tenant_id, topic.uid)
    return {row.key.subscription_uid: row.epoch for row in rows}


async def test_what_is_split_off_is_claimed_apart(world: World) -> None:
    topic, first, second = await two(world)
    base, part = keys_of(topic)[0], part_of(topic, first)
    owner, other = await world.forwarder(), await world.forwarder()
    before = (await world.claim(owner, topic))[0]
    assert await world.assignments.split(owner, part)
    assert await world.assignments.split(owner, part), "again, for an answer that was lost"
    assert part in await world.assignments.claimable(other)
    taken = (await world.assignments.claim(other, [part]))[part]
    assert set(cursors_of(taken)) == {first.uid}
    assert (await epochs(world, topic)) == {first.uid: taken.epoch, second.uid: before.epoch}
    again = (await world.assignments.claim(owner, [base]))[base]
    assert set(cursors_of(again)) == {second.uid}
    assert again.split_off == {first.uid}
    assert again.previous == before.epoch
    assert (await epochs(world, topic))[first.uid] == taken.epoch, "it is not fenced with the rest"


async def test_a_late_flush_of_the_partitions_owner_is_refused_after_a_split(world: World) -> None:
    topic, first, second = await two(world)
    part = part_of(topic, first)
    owner, other = await world.forwarder(), await world.forwarder()
    rows = cursors_of((await world.claim(owner, topic))[0])
    zombies = settled(rows[first.uid], floor=3, read_to=3)
    await world.assignments.split(owner, part)
    assert await world.cursors.flush([zombies]) == {}, "before anybody has claimed it"
    (taken,) = (await world.assignments.claim(other, [part])).values()
    assert await world.cursors.flush([zombies]) == {}
    mine = settled(cursors_of(taken)[first.uid], floor=5, read_to=5)
    assert await world.cursors.flush([mine]) == {mine.key: 0}
    others = settled(rows[second.uid], floor=4, read_to=4)
    assert await world.cursors.flush([others]) == {others.key: 0}, "the rest goes on"


async def test_what_is_merged_back_is_under_an_epoch_of_its_own(world: World) -> None:
    topic, first, second = await two(world)
    base, part = keys_of(topic)[0], part_of(topic, first)
    owner, other = await world.forwarder(), await world.forwarder()
    before = (await world.claim(owner, topic))[0]
    oldest = settled(cursors_of(before)[first.uid], floor=1, read_to=1)
    await world.assignments.split(owner, part)
    (taken,) = (await world.assignments.claim(other, [part])).values()
    assert await world.assignments.merge(owner, part) is None, "another owns it"
    assert await world.assignments.merge(other, part) is None, "the partition is another's"
    await world.assignments.release(other, [part])
    merged = await world.assignments.merge(owner, part)
    assert merged is not None
    (row,) = merged
    assert row.epoch not in (before.epoch, taken.epoch)
    late = settled(cursors_of(taken)[first.uid], floor=2, read_to=2)
    assert await world.cursors.flush([oldest]) == {}
    assert await world.cursors.flush([late]) == {}
    mine = settled(row, floor=3, read_to=3)
    assert await world.cursors.flush([mine]) == {mine.key: 0}
    assert await world.assignments.merge(owner, part) is not None, "again, for a lost answer"
    again = (await world.assignments.claim(owner, [base]))[base]
    assert set(cursors_of(again)) == {first.uid, second.uid}
    assert again.split_off == frozenset()


async def test_the_part_of_a_dead_owner_is_merged_back(world: World) -> None:
    topic, first, _ = await two(world)
    part = part_of(topic, first)
    owner, other = await world.forwarder(), await world.forwarder()
    await world.claim(owner, topic)
    await world.assignments.split(owner, part)
    await world.assignments.claim(other, [part])
    assert await world.assignments.merge(owner, part) is None
    await world.end_lease(other)
    assert part in await world.assignments.claimable(owner)
    assert await world.assignments.merge(owner, part) is not None
    assert part not in await world.assignments.claimable(await world.forwarder())


async def test_only_the_partitions_owner_splits(world: World) -> None:
    topic, first, _ = await two(world)
    part = part_of(topic, first)
    owner, other = await world.forwarder(), await world.forwarder()
    assert not await world.assignments.split(owner, part), "nobody's"
    await world.claim(owner, topic)
    assert not await world.assignments.split(other, part)
    strange = part._replace(subscription_uid=bytes(15) + b"x")
    assert not await world.assignments.split(owner, strange)
    await world.end_lease(owner)
    for done in (world.assignments.split, world.assignments.merge):
        with pytest.raises(LeaseLost):
            await done(owner, part)


async def test_a_partition_claimed_after_its_owner_died_says_what_is_split_off(
    world: World,
) -> None:
    topic, first, second = await two(world)
    part = part_of(topic, first)
    owner, other, heir = [await world.forwarder() for _ in range(3)]
    await world.claim(owner, topic)
    await world.assignments.split(owner, part)
    await world.assignments.claim(other, [part])
    await world.end_lease(owner)
    claim = (await world.claim(heir, topic))[0]
    assert claim.split_off == {first.uid}
    assert set(cursors_of(claim)) == {second.uid}


async def test_a_deleted_subscription_takes_its_parts_with_it(world: World) -> None:
    topic, first, _ = await two(world)
    part = part_of(topic, first)
    owner, other = await world.forwarder(), await world.forwarder()
    await world.claim(owner, topic)
    await world.assignments.split(owner, part)
    await world.subscriptions.delete(world.tenant_id, "first")
    assert await world.assignments.claim(other, [part]) == {}
    assert not await world.assignments.split(owner, part)
    third = await world.subscription(topic, "third")
    claim = (await world.assignments.claim(owner, keys_of(topic)))[keys_of(topic)[0]]
    assert third.uid in cursors_of(claim)


async def test_splits_and_deletes_at_once_leave_no_part_behind(world: World) -> None:
    topic = await world.topic(partitions=4)
    owner = await world.forwarder()
    await world.claim(owner, topic)
    made = [await world.subscription(topic, f"s{number}") for number in range(6)]

    async def split(one: Subscription) -> None:
        for key in keys_of(topic):
            await world.assignments.split(owner, key._replace(subscription_uid=one.uid))

    async def delete(one: Subscription) -> None:
        await world.subscriptions.delete(world.tenant_id, one.name)

    await asyncio.gather(*(split(one) for one in made), *(delete(one) for one in made))
    assert await world.assignments.claimable(owner) == []


async def test_of_many_claimers_each_part_gets_one_and_the_books_of_epochs_hold(
    world: World,
) -> None:
    topic = await world.topic(partitions=4)
    subscriptions = [await world.subscription(topic, f"s{number}") for number in range(3)]
    owner = await world.forwarder()
    await world.claim(owner, topic)
    parts = [
        key._replace(subscription_uid=one.uid) for key in keys_of(topic) for one in subscriptions
    ]
    for part in parts[::2]:
        assert await world.assignments.split(owner, part)
    await world.assignments.release(owner)
    rivals = [await world.forwarder() for _ in range(4)]
    wanted = [*keys_of(topic), *parts[::2]]
    won = await asyncio.gather(*(world.assignments.claim(rival, wanted) for rival in rivals))
    assert sorted(unit for claims in won for unit in claims) == sorted(wanted)
    claimed = {
        (cursor.key.subscription_uid, cursor.key.partition): claim.epoch
        for claims in won
        for claim in claims.values()
        for cursor in claim.cursors
    }
    stored = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert claimed == {(row.key.subscription_uid, row.key.partition): row.epoch for row in stored}
    assert len({claim.epoch for claims in won for claim in claims.values()}) == len(wanted)


async def test_a_partition_or_one_subscriptions_part_of_it_is_loaded(world: World) -> None:
    topic, first, second = await two(world)
    base, part = keys_of(topic)[0], part_of(topic, first)
    whole = await world.cursors.load([base])
    assert {row.key.subscription_uid for row in whole} == {first.uid, second.uid}
    assert {row.key.subscription_uid for row in await world.cursors.load([part])} == {first.uid}


async def test_who_leaves_owns_nothing_and_keeps_its_lease(world: World) -> None:
    topic = await world.topic()
    leaver, heir = await world.forwarder(), await world.forwarder()
    await world.claim(leaver, topic)
    await world.leases.leave(leaver)
    await world.leases.leave(leaver)
    assert set(await world.claim(heir, topic)) == {0, 1}
    renewed = await world.leases.renew(leaver, load=b'{"cpu": 0.5}')
    roles = {one.incarnation: one.role for one in renewed.live}
    assert roles == {leaver: "subscribe" + LEAVING, heir: "subscribe"}
    assert [one.incarnation for one in await world.leases.live("subscribe")] == [heir]


async def test_a_renewal_tells_who_is_alive(world: World) -> None:
    one, other, dead = [await world.forwarder() for _ in range(3)]
    await world.forwarder("publish")
    await world.end_lease(dead)
    renewed = await world.leases.renew(one)
    assert {each.incarnation for each in renewed.live} == {one, other}
    for each in renewed.live:
        assert each.remaining_s > 0
        assert each.age_s >= 0
        assert each.weight == 1.0


async def test_a_claim_is_of_the_newest_era(world: World) -> None:
    topic, first, _ = await two(world)
    owner = await world.forwarder()

    async def enter(connection: object) -> None:
        await connection.execute(  # type: ignore[attr-defined]
            "INSERT INTO eras (era, system_identifier, timeline, reason) VALUES (7, 'x', 1, 'test')"
            " ON CONFLICT DO NOTHING"
        )

    async def leave(connection: object) -> None:
        await connection.execute("DELETE FROM eras WHERE era = 7")  # type: ignore[attr-defined]

    await world.database.statement(enter, writes=True)
    try:
        claim = (await world.claim(owner, topic))[0]
        assert claim.epoch.era == 7
        await world.assignments.split(owner, part_of(topic, first))
        assert (await epochs(world, topic))[first.uid].era == 7
    finally:
        await world.database.statement(leave, writes=True)
