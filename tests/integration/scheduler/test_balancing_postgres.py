"""Rounds of the balancer on a real Postgres, by reports as forwarders write them."""

from __future__ import annotations

import pytest

from metadata.database import Connection, Database
from metadata.delivery import loads
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.loads import Load, UnitLoad
from metadata.errors import LeaseLost
from metadata.ids import new_uid
from metadata.locks.locks import Lock, LockRepository
from metadata.types import Topic, Unit
from scheduler.balancing.balancer import EVERY_S, Balancer
from subscribe_forwarder.fleet.rendezvous import home
from tests.integration.metadata.world import World, keys_of

IDLE = Load(0.05, 0.0, 0.0, 0.0, 0, 0)


class Site:
    """Forwarders that have lived for a minute, and a balancer whose clock stands between rounds."""

    def __init__(self, world: World, lock: Lock) -> None:
        self.world = world
        self.lock = lock
        self.now_s = 0.0
        self.hints = HintRepository(world.database)
        self.balancer = Balancer(
            FleetRepository(world.database),
            self.hints,
            home,
            lambda: self.lock,
            lambda: self.now_s,
        )

    async def forwarder(self, load: Load = IDLE) -> bytes:
        incarnation = await self.world.forwarder()
        await self.report(incarnation, load)
        return incarnation

    async def report(self, incarnation: bytes, load: Load) -> None:
        body = loads.encode(load).decode()

        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE forwarders SET load = $2::jsonb, started_at = now() - interval '1 min',"
                " lease_until = now() + interval '1 min' WHERE incarnation = $1",
                incarnation,
                body,
            )

        await self.world.database.statement(work, writes=True)

    async def rounds(self, seconds: float) -> None:
        for _ in range(int(seconds / EVERY_S)):
            self.now_s += EVERY_S
            await self.balancer.round()

    async def topic_at(self, incarnation: bytes, others: list[bytes]) -> Topic:
        """Make a topic whose home is this forwarder, which owns it."""
        weights = dict.fromkeys([incarnation, *others], 1.0)
        for number in range(1000):
            topic = await self.world.topic(f"topic-{number}", 2)
            if home(topic.uid, weights) == incarnation:
                await self.world.assignments.claim(incarnation, keys_of(topic))
                return topic
        raise AssertionError("no topic has its home there")


def busy(cpu: float, units: dict[Unit, float]) -> Load:
    each = tuple(
        UnitLoad.of(unit, per_second=rate, backlog=0, growth_per_s=0.0, waiting=1)
        for unit, rate in units.items()
    )
    return Load(cpu, 0.0, sum(units.values()), 0.0, 1, len(units), each)


@pytest.fixture
async def site(database: Database) -> Site:
    world = await World.open(database)
    lock = await LockRepository(database).take("scheduler", new_uid())
    assert lock is not None
    return Site(world, lock)


async def test_a_topic_leaves_a_full_forwarder_and_comes_back(site: Site) -> None:
    full, other = await site.forwarder(), await site.forwarder()
    topic = await site.topic_at(full, [other])
    small, large = keys_of(topic)
    await site.report(full, busy(0.9, {small: 10.0, large: 10.0, Unit(*small[:2], 9): 40.0}))
    await site.rounds(30)
    assert await site.hints.all() == {small: other, large: other}
    assert {hint.reason for hint in await site.hints.listing()} == {"topic: load"}
    # They went, and what they took there is little by now.
    await site.report(full, busy(0.1, {}))
    await site.report(other, busy(0.1, {small: 1.0, large: 1.0}))
    await site.rounds(120)
    assert await site.hints.all() == {}


async def test_hints_of_the_dead_go_with_the_next_round(site: Site) -> None:
    here, dead = await site.forwarder(), await site.forwarder()
    first, second = keys_of(await site.topic_at(dead, [here]))
    await site.hints.replace(site.lock, {first: (here, "hot"), second: (dead, "hot")})
    await site.world.end_lease(dead)
    await site.rounds(2)
    assert second not in await site.hints.all()


async def test_a_balancer_without_the_lock_writes_nothing(site: Site) -> None:
    full, other = await site.forwarder(), await site.forwarder()
    topic = await site.topic_at(full, [other])
    first, second = keys_of(topic)
    await site.report(full, busy(0.9, {first: 10.0, second: 10.0, Unit(*first[:2], 9): 40.0}))
    locks = LockRepository(site.world.database)
    await locks.release(site.lock)
    assert await locks.take("scheduler", new_uid()) is not None
    with pytest.raises(LeaseLost):
        await site.rounds(30)
    assert await site.hints.all() == {}
