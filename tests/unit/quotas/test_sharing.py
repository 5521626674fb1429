"""One limit over several processes, in simulated time: what passes adds up to the limit."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from edge.quota import PUBLISH_MESSAGES
from gateway.quotas.limiter import Limiter
from gateway.quotas.sharing import LEAST_GAP_S, Sharing
from metadata.errors import MetadataUnavailable
from metadata.tenancy.quota_demands import FRESH_S, Demand
from metadata.tenancy.quotas import TenantQuota

TENANT = b"t" * 16
STEP_S = 0.005
TOLERANCE = 0.1


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Table:
    """quota_demands, as the statements see it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows: dict[tuple[bytes, bytes, str], tuple[float, float]] = {}
        self.away = False

    async def tell(
        self, incarnation: bytes, demands: Sequence[Demand]
    ) -> Mapping[tuple[bytes, str], float]:
        if self.away:
            raise MetadataUnavailable("away")
        now_s = self._clock()
        for tenant_id, quota, demand in demands:
            self.rows[incarnation, tenant_id, quota] = (demand, now_s)
        return {
            (tenant_id, quota): sum(
                demand
                for (_, tenant, name), (demand, told_s) in self.rows.items()
                if (tenant, name) == (tenant_id, quota) and now_s - told_s < FRESH_S
            )
            for tenant_id, quota, _ in demands
        }

    async def leave(self, incarnation: bytes) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != incarnation}

    async def prune(self) -> None:
        return None


class Process:
    """A process that asks at a rate, for some messages each time; refused requests are not
    repeated.
    """

    def __init__(self, clock: Clock, table: Table, limit: float, rng: random.Random) -> None:
        self.limiter = Limiter([PUBLISH_MESSAGES], {}, clock)
        self.limiter.follow([TenantQuota(TENANT, {PUBLISH_MESSAGES: limit})])
        self.sharing = Sharing(self.limiter, table, 1.0, clock)
        self.limiter.hurry = self._hurry
        self.demand = 0.0
        self.size = 1
        self.passed = 0
        self.dead = False
        self._rng = rng
        self._clock = clock
        self._due_s = clock()
        self._last_s = clock()
        self._owed = 0.0

    def _hurry(self) -> None:
        self._due_s = min(self._due_s, max(self._clock(), self._last_s + LEAST_GAP_S))

    async def step(self) -> None:
        if self.dead:
            return
        self._owed += self.demand * STEP_S
        while self._owed >= self.size:
            self._owed -= self.size
            if self.limiter.take_publish(TENANT, self.size, 1) is None:
                self.passed += self.size
        if self._clock() >= self._due_s:
            self._last_s = self._clock()
            self._due_s = self._last_s + self._rng.uniform(0.9, 1.1)
            if await self.sharing.round():
                self._due_s = self._last_s + LEAST_GAP_S


class World:
    def __init__(self, processes: int, limit: float = 100.0, seed: int = 1) -> None:
        self.clock = Clock()
        self.table = Table(self.clock)
        self.limit = limit
        self.rng = random.Random(seed)
        self.processes = [self.make() for _ in range(processes)]

    def make(self) -> Process:
        return Process(self.clock, self.table, self.limit, self.rng)

    @property
    def passed(self) -> int:
        return sum(process.passed for process in self.processes)

    async def run(self, seconds: float) -> float:
        """Run the world; return the part of the limit that passed."""
        before = self.passed
        for _ in range(round(seconds / STEP_S)):
            self.clock.now_s += STEP_S
            for process in self.rng.sample(self.processes, len(self.processes)):
                await process.step()
        return (self.passed - before) / (self.limit * seconds)


def near(part: float, expected: float = 1.0) -> Any:
    return abs(part - expected) <= TOLERANCE


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 10])
async def test_from_the_first_second_on_the_limit_is_kept(processes: int, size: int) -> None:
    world = World(processes)
    await world.run(3)
    for process in world.processes:
        process.demand, process.size = 80.0 + 100.0 / processes, size
    assert near(await world.run(10))
    assert near(await world.run(10))


@pytest.mark.parametrize("processes", [2, 3, 5])
async def test_skewed_demand_wastes_nothing(processes: int) -> None:
    world = World(processes)
    for number, process in enumerate(world.processes):
        process.demand = 200.0 if number == 0 else 3.0
    await world.run(3)
    assert near(await world.run(10))


async def test_what_is_below_the_limit_all_passes() -> None:
    world = World(3)
    for process, demand in zip(world.processes, (60.0, 20.0, 8.0), strict=True):
        process.demand = demand
    await world.run(3)
    assert near(await world.run(10), 0.88)
    before = world.passed
    await world.run(10)
    assert world.passed - before >= 0.99 * 880


@pytest.mark.parametrize("seed", range(6))
async def test_demand_that_shifts_is_followed(seed: int) -> None:
    world = World(world_size := 2 + seed % 4, seed=seed)
    await world.run(3)
    parts = []
    for _ in range(12):
        weights = [world.rng.choice([0.0, 0.2, 1.0]) for _ in range(world_size)]
        weights[world.rng.randrange(world_size)] = 1.0
        for process, weight in zip(world.processes, weights, strict=True):
            process.demand = 300.0 * weight / sum(weights)
        parts.append(await world.run(10))
    assert near(sum(parts) / len(parts)), parts
    assert max(parts) <= 1 + TOLERANCE, parts


async def test_a_newcomer_starts_at_once_and_the_dead_are_forgotten() -> None:
    world = World(2)
    for process in world.processes:
        process.demand = 150.0
    await world.run(5)
    world.processes.append(newcomer := world.make())
    newcomer.demand = 150.0
    assert near(await world.run(10))
    assert newcomer.passed >= 0.8 * 1000 / 3
    world.processes[0].dead = True
    await world.run(FRESH_S + 1)
    assert near(await world.run(10))


async def test_without_postgres_the_last_shares_go_on() -> None:
    world = World(3)
    for process, demand in zip(world.processes, (300.0, 100.0, 100.0), strict=True):
        process.demand = demand
    await world.run(5)
    world.table.away = True
    assert near(await world.run(30))
    world.table.away = False
    assert near(await world.run(10))


async def test_who_leaves_leaves_its_share() -> None:
    world = World(2)
    for process in world.processes:
        process.demand = 150.0
    await world.run(5)
    world.processes[0].dead = True
    await world.processes[0].sharing.leave()
    await world.run(1.5)
    assert near(await world.run(5))


async def test_large_requests_pass_in_their_turn() -> None:
    """Requests larger than a second's worth pass beside small ones that use up all the rest."""
    world = World(2)
    small, large = world.processes
    small.demand, large.demand, large.size = 200.0, 100.0, 500
    assert (await world.run(60)) <= 1 + TOLERANCE + 500 / 6000
    assert large.passed >= 500
    assert small.passed >= 500


async def test_limits_below_one_a_second() -> None:
    world = World(3, limit=0.5)
    for process in world.processes:
        process.demand = 2.0
    await world.run(20)
    assert near(await world.run(200))
