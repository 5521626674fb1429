"""Two and three forwarders that share topics: who owns what, and what becomes of it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from edge.problem import Problem
from metadata.lease import LEASE_S
from metadata.types import WHOLE, Topic, Unit
from subscribe_forwarder.peers import is_misdirected
from tests.unit.subscribe_forwarder.fleet_support import (
    FakeLinks,
    FleetWorld,
    eventually,
    fleet,
    pulled_here,
)
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    World,
    subscription,
    topic,
)

KEY = Unit(TENANT, TOPIC_UID, 0)
PART = KEY._replace(subscription_uid=SUBSCRIPTION_UID)


def many(count: int, partitions: int = 2) -> FakeMetadata:
    """Return metadata with `count` topics, whose homes are spread over all forwarders."""
    metadata = FakeMetadata(topic(partitions), subscription())
    for number in range(1, count):
        other = topic(partitions, f"t{number}", (100 + number).to_bytes(16, "big"))
        metadata.topics[other.uid] = other
    return metadata


def units(metadata: FakeMetadata) -> set[Unit]:
    return {
        Unit(TENANT, one.uid, number)
        for one in metadata.topics.values()
        for number in range(one.partition_count)
    }


def owned(*worlds: World) -> list[Unit]:
    return sorted(owner.key for world in worlds for owner in world.forwarder.owners)


def owner_of(made: FleetWorld, unit: Unit) -> World | None:
    return next((one for one in made.members if unit in one.forwarder.owners), None)


def others(made: FleetWorld, than: World | None) -> list[World]:
    return [one for one in made.members if one is not than]


async def settled(made: FleetWorld) -> None:
    """Everything is owned by one, each topic by a single one, and everybody knows."""

    def is_settled() -> bool:
        if owned(*made.members) != sorted(units(made.metadata)):
            return False
        for world in made.members:
            part = world.forwarder._fleet
            if len(part.members.living(made.metadata.clock())) != len(made.members):
                return False
            wanted_at = part.claims.wanted_at
            if any(wanted_at(unit) != world.forwarder.incarnation for unit in owned(world)):
                return False
        counts = {w.forwarder.incarnation: len(w.forwarder.owners) for w in made.members}
        told = {incarnation: count for incarnation, count in counts.items() if count}
        return all(dict(w.forwarder.directory.owners()) == told for w in made.members)

    await eventually(is_settled, 15)


async def test_a_fleet_shares_the_topics_and_each_has_one_owner() -> None:
    metadata = many(40)
    async with fleet(metadata, 1) as made:
        assert len(owned(made.members[0])) == 80
        await made.add()
        made.age()
        second = made.members[1].forwarder
        await eventually(lambda: 20 <= len(second.owners) <= 60, 15)
        await settled(made)
        for world in made.members:
            for owner in world.forwarder.owners:
                partitions = {unit.partition for unit in owned(world)}
                assert partitions == {0, 1}
                assert len(world.forwarder.owners.of_topic(owner.key.topic_uid)) == 2


async def test_a_young_forwarder_is_given_nothing_yet_but_takes_what_is_nobodys() -> None:
    metadata = many(40)
    async with fleet(metadata, 2) as made:
        await asyncio.sleep(1.2)
        assert owned(made.members[1]) == []
        new = [topic(1, f"n{n}", (1000 + n).to_bytes(16, "big")) for n in range(20)]
        for one in new:
            metadata.topics[one.uid] = one
        await tell(made, *new)
        await settled_within(made, lambda: len(owned(made.members[1])) > 0)


async def tell(made: FleetWorld, *topics: Topic) -> None:
    from metadata.types import ChangeKind

    for one in topics:
        await made.metadata.changed(ChangeKind.TOPIC, one.uid)


async def settled_within(made: FleetWorld, condition: object) -> None:
    assert callable(condition)
    await eventually(condition)
    await settled(made)


async def test_a_clean_stop_hands_everything_over_at_once() -> None:
    metadata = many(10)
    metadata.lease_s = 1000.0
    async with fleet(metadata, 2) as made:
        made.store.publish(b"a", b"b")
        leaver = owner_of(made, KEY)
        assert leaver is not None
        (message,) = await pulled_here(leaver, 1)
        await leaver.ack(message)
        leaver.forwarder.drain()
        (heir,) = others(made, leaver)
        await eventually(lambda: owned(heir) == sorted(units(metadata)), 1.0)
        assert owned(leaver) == []
        assert [m["data"] for m in await pulled_here(heir)] == ["b"], "what was acked is flushed"
        where = leaver.forwarder.directory.find(subscription(), range(2))
        assert where.elsewhere[0].forwarder == heir.forwarder.incarnation, "it can pass acks on"


async def test_the_units_of_a_dead_forwarder_are_taken_when_its_lease_ends() -> None:
    metadata = many(10)
    metadata.lease_s = LEASE_S
    async with fleet(metadata, 3) as made:
        made.age()
        await settled(made)
        await made.kill(next(w for w in made.members if owned(w)))
        lost = sorted(units(metadata) - set(owned(*made.members)))
        assert lost
        ends_s = max(metadata.leases.values())
        await eventually(lambda: owned(*made.members) == sorted(units(metadata)), LEASE_S + 1)
        assert metadata.clock() < ends_s + 1.0
        await settled(made)


async def test_what_is_not_here_is_misdirected_and_waits_end_when_it_goes() -> None:
    metadata = many(1)
    async with fleet(metadata, 2) as made:
        made.age()
        await settled(made)
        owner = owner_of(made, KEY)
        (other,) = others(made, owner)
        assert owner is not None
        with pytest.raises(Problem) as refused:
            await other.forwarder.hub(TENANT, "reader")
        assert is_misdirected(refused.value)
        hub = await owner.forwarder.hub(TENANT, "reader")
        assert {place.partition for place in hub.readers} == {0, 1}
        waiting = asyncio.create_task(pulled_here(owner, wait_s=30))
        await eventually(lambda: hub.waiting == 1)
        made.hints.wanted = {KEY: other.forwarder.incarnation}
        await eventually(lambda: KEY in other.forwarder.owners)
        with pytest.raises(Problem) as refused:
            await waiting
        assert is_misdirected(refused.value)
        with pytest.raises(Problem) as refused:
            await owner.forwarder.hub(TENANT, "reader")
        assert is_misdirected(refused.value), "not all of it is here"
        part = await owner.forwarder.hub(TENANT, "reader", part=True)
        assert {place.partition for place in part.readers} == {1}
        assert part.share == 0.5


async def test_limits_are_shared_like_the_partitions() -> None:
    metadata = many(1)
    metadata.subscriptions["reader"] = replace(metadata.subscriptions["reader"], max_outstanding=10)
    async with fleet(metadata, 2) as made:
        made.age()
        await settled(made)
        owner = owner_of(made, KEY)
        assert owner is not None
        (other,) = others(made, owner)
        made.hints.wanted = {KEY: other.forwarder.incarnation}
        await eventually(lambda: KEY in other.forwarder.owners)
        for world in made.members:
            hub = await world.forwarder.hub(TENANT, "reader", part=True)
            assert hub.max_outstanding == 5


async def split(made: FleetWorld) -> tuple[World, World]:
    """Split a subscription off; return the owner of the partition and that of the subscription."""
    made.age()
    await settled(made)
    owner = owner_of(made, KEY)
    assert owner is not None
    other = others(made, owner)[0]
    made.hints.wanted = {PART: other.forwarder.incarnation}
    await eventually(lambda: PART in other.forwarder.owners)
    return owner, other


async def test_a_subscription_is_split_off_served_there_and_merged_back() -> None:
    metadata = many(1, partitions=1)
    metadata.add_rows(subscription("second", b"2" * 16), metadata.topics[TOPIC_UID])
    async with fleet(metadata, 2) as made:
        made.store.publish(b"a", b"b", b"c")
        made.age()
        await settled(made)
        first = owner_of(made, KEY)
        assert first is not None
        (message, *_) = await pulled_here(first, 1)
        await first.ack(message)
        owner, other = await split(made)
        assert owner is first
        with pytest.raises(Problem) as refused:
            await owner.forwarder.hub(TENANT, "reader", part=True)
        assert is_misdirected(refused.value)
        assert [m["data"] for m in await pulled_here(other, 1)] == ["b"]
        assert len(await pulled_here(owner, name="second")) == 3
        second = metadata.subscriptions["second"]
        for world in made.members:
            find = world.forwarder.directory.find
            for one, server in ((subscription(), other), (second, owner)):
                where = find(one, [0])
                incarnation = server.forwarder.incarnation
                elsewhere = [place.forwarder for place in where.elsewhere]
                assert (where.here == (0,)) == (server is world)
                assert elsewhere == ([] if server is world else [incarnation])
        made.hints.wanted = {}
        await eventually(lambda: PART not in other.forwarder.owners)
        await eventually(lambda: not metadata.split_units)
        await eventually(lambda: not owner.forwarder.owners.split_off()[KEY])
        assert [m["data"] for m in await pulled_here(owner)] == ["c"], "b is still leased"
        await eventually(
            lambda: other.forwarder.directory.find(subscription(), [0]).elsewhere != ()
        )


async def test_what_a_dead_forwarder_had_split_off_goes_back() -> None:
    metadata = many(1, partitions=1)
    metadata.lease_s = LEASE_S
    async with fleet(metadata, 2) as made:
        made.store.publish(b"a")
        owner, other = await split(made)
        await made.kill(other)
        await eventually(lambda: not metadata.split_units, LEASE_S + 4)
        await eventually(lambda: not owner.forwarder.owners.split_off()[KEY])
        assert [m["data"] for m in await pulled_here(owner)] == ["a"]


async def test_a_deleted_subscription_takes_what_was_split_off_with_it() -> None:
    from metadata.types import ChangeKind

    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        _, other = await split(made)
        made.hints.wanted = {}
        del metadata.subscriptions["reader"]
        metadata.split_units.clear()
        metadata.owners.pop(PART, None)
        await metadata.changed(ChangeKind.SUBSCRIPTION, SUBSCRIPTION_UID, "reader")
        assert PART not in other.forwarder.owners


async def test_without_a_link_nothing_is_given_away() -> None:
    metadata = many(20)
    async with fleet(metadata, 1) as made:
        await made.add()
        first, second = (world.forwarder for world in made.members)
        assert isinstance(first.links, FakeLinks)
        made.network.cut.add(frozenset((first.incarnation, second.incarnation)))
        first.links.close()
        made.age()
        await asyncio.sleep(2.5)
        assert len(first.owners) == 40
        assert len(second.owners) == 0


async def test_a_pull_at_a_new_topic_is_claimed_where_it_is_wanted_before_the_feed_tells() -> None:
    metadata = many(1)
    async with fleet(metadata, 2) as made:
        new = topic(1, "new", b"n" * 16)
        metadata.topics[new.uid] = new
        one = replace(subscription("fresh", b"f" * 16), topic_uid=new.uid, topic_name="new")
        metadata.add_rows(one, new)
        unit = Unit(TENANT, new.uid, 0, WHOLE)
        await made.members[0].forwarder.look_for(one, [0])
        await eventually(lambda: owner_of(made, unit) is not None, 1.0)
