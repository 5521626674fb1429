from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from metadata.delivery.leases import Lease, LeaseRepository
from metadata.errors import LeaseLost
from metadata.ids import new_uid
from metadata.lease import LEASE_S, MARGIN_S
from metadata.types import Epoch, TopicSpec, Unit
from tests.integration.metadata.world import World, keys_of, settled


async def test_a_claim_takes_what_is_free_and_starts_a_new_epoch(world: World) -> None:
    topic = await world.topic(partitions=2)
    await world.subscription(topic)
    owner = await world.forwarder()
    assert await world.assignments.claimable(owner) == keys_of(topic)
    claims = await world.claim(owner, topic)
    assert {claim.previous for claim in claims.values()} == {Epoch(0, 0)}
    assert claims[0].epoch != claims[1].epoch, "no two claims share one"
    for claim in claims.values():
        assert claim.epoch > Epoch(0, 0)
        assert [cursor.epoch for cursor in claim.cursors] == [claim.epoch]
    assert await world.assignments.claimable(owner) == []


async def test_a_live_owner_keeps_its_partitions(world: World) -> None:
    topic = await world.topic()
    owner, rival = await world.forwarder(), await world.forwarder()
    await world.claim(owner, topic)
    assert await world.claim(rival, topic) == {}
    assert await world.assignments.claimable(rival) == []


async def test_released_partitions_and_those_of_the_dead_are_free(world: World) -> None:
    topic = await world.topic(partitions=3)
    owner, rival = await world.forwarder(), await world.forwarder()
    first = await world.claim(owner, topic)
    assert await world.assignments.release(owner, keys_of(topic)[:1]) == 1
    assert await world.assignments.release(rival) == 0
    taken = await world.claim(rival, topic)
    assert set(taken) == {0}
    await world.end_lease(owner)
    assert await world.assignments.claimable(rival) == keys_of(topic)[1:]
    claims = await world.claim(rival, topic)
    assert set(claims) == {0, 1, 2}
    before = {number: claim.epoch for number, claim in (first | taken).items()}
    assert {number: claim.previous for number, claim in claims.items()} == before


async def test_a_clean_stop_releases_everything(world: World) -> None:
    topic = await world.topic()
    owner, rival = await world.forwarder(), await world.forwarder()
    await world.claim(owner, topic)
    await world.leases.release(owner)
    await world.leases.release(owner)
    assert set(await world.claim(rival, topic)) == {0, 1}
    with pytest.raises(LeaseLost):
        await world.leases.renew(owner)


async def test_of_many_claimers_each_partition_gets_one(world: World) -> None:
    topic = await world.topic(partitions=8)
    await world.subscription(topic)
    dead = await world.forwarder()
    last = await world.claim(dead, topic)
    await world.end_lease(dead)
    rivals = [await world.forwarder() for _ in range(6)]
    won = await asyncio.gather(*(world.claim(rival, topic) for rival in rivals))
    taken = [number for claims in won for number in claims]
    assert sorted(taken) == list(range(8))
    assert {n: claim.previous for claims in won for n, claim in claims.items()} == {
        n: claim.epoch for n, claim in last.items()
    }


async def test_claiming_again_fences_a_flush_that_is_still_on_its_way(world: World) -> None:
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    owner = await world.forwarder()
    (cursor,) = (await world.claim(owner, topic))[0].cursors
    lost = settled(cursor, floor=4, read_to=10)
    claim = (await world.claim(owner, topic))[0]
    (again,) = claim.cursors
    assert claim.previous == cursor.epoch < again.epoch == claim.epoch
    assert await world.cursors.flush([settled(again, floor=8, read_to=10)]) == {again.key: 0}
    assert await world.cursors.flush([lost]) == {}
    (stored,) = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert stored.floor == 8


async def test_a_subscription_made_under_an_owner_gets_its_epoch(world: World) -> None:
    topic = await world.topic(partitions=1)
    claim = (await world.claim(await world.forwarder(), topic))[0]
    await world.subscription(topic)
    (cursor,) = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert cursor.epoch == claim.epoch
    assert await world.cursors.flush([settled(cursor, floor=1, read_to=1)]) == {cursor.key: 0}


async def test_subscriptions_and_claims_at_once_leave_no_cursor_behind(world: World) -> None:
    topic = await world.topic(partitions=4)
    owner = await world.forwarder()

    async def subscribe() -> None:
        for number in range(6):
            await world.subscription(topic, f"s{number}")

    async def claim() -> None:
        for _ in range(12):
            await world.claim(owner, topic)

    await asyncio.gather(subscribe(), claim())
    claims = await world.assignments.claim(owner, keys_of(topic))
    stored = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert len(stored) == 24
    assert {cursor.epoch for cursor in stored} == {claim.epoch for claim in claims.values()}


async def test_who_has_no_lease_claims_nothing(world: World) -> None:
    topic = await world.topic()
    with pytest.raises(LeaseLost):
        await world.claim(new_uid(), topic)
    late = await world.forwarder()
    await world.end_lease(late)
    with pytest.raises(LeaseLost):
        await world.claim(late, topic)


async def test_partitions_that_do_not_exist_are_not_claimed(world: World) -> None:
    topic = await world.topic(partitions=1)
    owner = await world.forwarder()
    strange = Unit(world.tenant_id, new_uid(), 0)
    claims = await world.assignments.claim(owner, [strange, *keys_of(topic)])
    assert set(claims) == set(keys_of(topic))
    await world.topics.mark_deleting(world.tenant_id, topic.name)
    assert await world.claim(owner, topic) == {}
    made = await world.topics.create(world.tenant_id, TopicSpec("young"), [0])
    assert not set(keys_of(made)) & set(await world.assignments.claimable(owner))


async def test_a_claim_waits_for_a_renewal_that_began_in_time(
    world: World, database_url: str
) -> None:
    """A renewal may commit after the lease it found live was over; the claim must not overtake."""
    topic = await world.topic(partitions=1)
    owner, rival = await world.forwarder(), await world.forwarder()
    await world.claim(owner, topic)
    await world.end_lease(owner)
    slow = await asyncpg.connect(database_url)
    try:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute("UPDATE forwarders SET lease_until = now() + interval '1 minute'")
        claim = asyncio.create_task(world.claim(rival, topic))
        await asyncio.sleep(0.2)
        assert not claim.done()
        await transaction.commit()
        assert await claim == {}
    finally:
        await slow.close()


async def test_the_holder_counts_from_before_it_asked_and_less_a_margin(world: World) -> None:
    now_s = 100.0

    def monotonic_s() -> float:
        nonlocal now_s
        now_s += 0.25
        return now_s

    leases = LeaseRepository(world.database, monotonic_s=monotonic_s)
    lease = await leases.register(new_uid(), role="subscribe")
    began_s = time.monotonic()
    assert lease.valid_until_s == 100.25 + LEASE_S - MARGIN_S
    assert lease.held(103.7)
    assert not lease.held(103.75)
    renewed = await leases.renew(lease.incarnation)
    assert renewed == Lease(lease.incarnation, 100.5 + LEASE_S - MARGIN_S)
    assert [one.incarnation for one in renewed.live] == [lease.incarnation]
    (seen,) = await leases.live("subscribe")
    assert seen.incarnation == lease.incarnation
    assert LEASE_S - (time.monotonic() - began_s) <= seen.remaining_s <= LEASE_S


async def test_a_lease_that_is_over_stays_over(world: World) -> None:
    incarnation = await world.forwarder()
    await world.end_lease(incarnation)
    with pytest.raises(LeaseLost):
        await world.leases.renew(incarnation)
    with pytest.raises(LeaseLost):
        await world.leases.register(incarnation, role="subscribe")
    assert await world.leases.live("subscribe") == []
