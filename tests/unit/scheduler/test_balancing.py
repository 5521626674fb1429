"""Balancing on a model of a fleet: it converges, is bounded, and then nothing moves any more."""

from __future__ import annotations

import pytest

from metadata.types import WHOLE, Unit
from scheduler.balancing.plan import EMPTY_ENOUGH, ROOM
from scheduler.balancing.pressure import FULL
from subscribe_forwarder.fleet.rendezvous import home
from tests.unit.scheduler.fleet_model import Decision, Model

MINUTE = 60


def places(model: Model) -> set[bytes]:
    """Return the forwarders that hints name."""
    return {hint[0] for hint in model.hints.values()}


def kinds(decisions: list[Decision]) -> set[str]:
    return {kind for decision in decisions for kind in decision.kinds}


async def test_an_even_fleet_is_left_alone() -> None:
    model = Model(3)
    for forwarder in model.processes:
        for _ in range(4):
            model.subscription(model.topic(2, at=forwarder), 0.1)
    assert await model.run(20 * MINUTE) == []
    assert max(process.cpu for process in model.processes.values()) > FULL
    # And costs one statement a round, after the first look for hints.
    assert model.statements == 20 * MINUTE // 2 + 1


async def test_a_burst_moves_nothing() -> None:
    model = Model(2)
    full, _ = model.processes
    parts = [model.subscription(model.topic(at=full), 0.05) for _ in range(6)]
    assert await model.run(MINUTE) == []
    for part in parts:
        model.demand(part, 0.15)
    await model.run(8)
    for part in parts:
        model.demand(part, 0.05)
    assert await model.run(5 * MINUTE) == []


async def test_whole_topics_leave_a_full_home_first() -> None:
    model = Model(3)
    full, *_ = model.processes
    topics = [model.topic(2, at=full) for _ in range(24)]
    for topic in topics:
        model.subscription(topic, 0.025)
    decisions = await model.run(10 * MINUTE)
    assert kinds(decisions) == {"topic"}
    assert_bounded(decisions)
    assert model.backlog < 1
    assert all(process.used <= FULL for process in model.processes.values())
    for topic in topics:
        assert len({model.owners[unit] for unit in topic}) == 1
    assert await model.run(30 * MINUTE) == []


async def test_a_hot_topic_is_spread_over_the_fleet() -> None:
    model = Model(3)
    full, *_ = model.processes
    topic = model.topic(12, at=full)
    model.subscription(topic, 0.12)
    decisions = await model.run(10 * MINUTE)
    assert kinds(decisions) == {"partition"}
    assert model.backlog < 1
    assert len({model.owners[unit] for unit in topic}) == 3
    assert await model.run(30 * MINUTE) == []


async def test_a_topic_of_more_partitions_than_are_reported_counts_as_a_whole() -> None:
    """The topic would fill the other forwarder, so it is spread and not moved."""
    model = Model(2)
    topic = model.topic(60, at=next(iter(model.processes)))
    model.subscription(topic, 0.02)
    decisions = await model.run(15 * MINUTE)
    assert kinds(decisions) == {"partition"}
    assert model.backlog < 1
    assert_bounded(decisions)


async def test_a_partition_that_is_too_hot_is_split() -> None:
    model = Model(3)
    full, *_ = model.processes
    (partition,) = model.topic(1, at=full)
    parts = [part for _ in range(10) for part in model.subscription([partition], 0.12)]
    decisions = await model.run(10 * MINUTE)
    assert kinds(decisions) == {"split"}
    assert model.backlog < 1
    assert model.owners[partition] == full
    assert {model.owner(part) for part in parts} == set(model.processes)
    assert await model.run(30 * MINUTE) == []


async def test_a_backlog_that_grows_moves_something_also_in_an_almost_even_fleet() -> None:
    """The fullest is not at 1.3 times the mean, and yet messages stand there."""
    model = Model(4)
    full, second, third, empty = model.processes
    for forwarder, cpu in ((second, 0.95), (third, 0.95), (empty, 0.2)):
        model.subscription(model.topic(at=forwarder), cpu)
    (partition,) = model.topic(1, at=full)
    for _ in range(9):
        model.subscription([partition], 0.12)
    assert UNEVEN_MEAN > 1.0
    decisions = await model.run(10 * MINUTE)
    assert decisions
    assert model.backlog < 1


UNEVEN_MEAN = 1.3 * (1.0 + 0.97 + 0.97 + 0.22) / 4
"""Load of a fleet in which a full core is not uneven."""


async def test_what_was_moved_comes_back_when_it_is_calm_again() -> None:
    model = Model(2)
    full, _ = model.processes
    topic = model.topic(8, at=full)
    parts = model.subscription(topic, 0.13)
    await model.run(10 * MINUTE)
    assert model.hints
    model.demand(parts, 0.0675)  # 0.56 at home: less than what moves it away, more than half
    assert await model.run(30 * MINUTE) == []
    model.demand(parts, 0.05)
    decisions = await model.run(10 * MINUTE)
    assert model.hints == {}
    assert {model.owners[unit] for unit in topic} == {full}
    assert [len(decision.removed) > 0 for decision in decisions] == [True]
    assert await model.run(30 * MINUTE) == []


async def test_a_split_comes_back_to_its_partition() -> None:
    model = Model(2)
    (partition,) = model.topic(1, at=next(iter(model.processes)))
    parts = [part for _ in range(8) for part in model.subscription([partition], 0.13)]
    await model.run(10 * MINUTE)
    assert any(unit.subscription_uid != WHOLE for unit in model.hints)
    model.demand(parts, 0.03)
    await model.run(10 * MINUTE)
    assert model.hints == {}
    assert {model.owner(part) for part in parts} == {model.owners[partition]}


async def test_nothing_comes_back_while_it_has_a_backlog() -> None:
    model = Model(2)
    (partition,) = model.topic(1, at=next(iter(model.processes)))
    parts = [part for _ in range(8) for part in model.subscription([partition], 0.13)]
    await model.run(10 * MINUTE)
    model.demand(parts, 0.01)
    hinted = next(unit for unit in model.hints if unit.subscription_uid != WHOLE)
    model.flows[hinted].unacked = 1000.0
    await model.run(5 * MINUTE)
    assert set(model.hints) == {hinted}
    model.flows[hinted].unacked = 0.0
    await model.run(2 * MINUTE)
    assert model.hints == {}


async def test_one_hot_subscription_is_left_where_it_is_and_the_rest_makes_way() -> None:
    """The subscription would fill any other core as well, so moving it would never end."""
    model = Model(2)
    full, other = model.processes
    (hot,) = model.subscription(model.topic(1, at=full), 2.0)
    rest = [model.subscription(model.topic(1, at=full), 0.08) for _ in range(3)]
    await model.run(20 * MINUTE)
    assert model.owner(hot) == full
    assert {model.owner(part) for (part,) in rest} == {other}
    assert await model.run(30 * MINUTE) == []


async def test_hints_of_a_dead_forwarder_are_pruned_and_its_load_is_spread_anew() -> None:
    model = Model(4)
    full, *_ = model.processes
    for _ in range(9):
        model.subscription(model.topic(2, at=full), 0.08)
    await model.run(10 * MINUTE)
    victim = next(iter(places(model)))
    model.kill(victim)
    await model.run(4)
    assert victim not in places(model)
    await model.run(15 * MINUTE)
    assert model.backlog < 1
    assert await model.run(30 * MINUTE) == []


async def test_a_forwarder_that_comes_is_used_once_its_load_says_something() -> None:
    model = Model(1)
    (first,) = model.processes
    for _ in range(6):
        model.subscription(model.topic(4), 0.05)
    assert await model.run(5 * MINUTE) == []
    second = model.start()
    decisions = await model.run(10 * MINUTE)
    assert all(decision.at_s >= model.processes[second].started_s + 10 for decision in decisions)
    assert model.backlog < 1
    assert {owner for owner in model.owners.values()} == {first, second}


async def test_hints_that_say_what_would_be_so_anyway_are_taken_away() -> None:
    model = Model(2)
    here, _ = model.processes
    (unit,) = model.topic(1, at=here)
    model.hints[unit] = (here, "topic: load", model.now_s)
    await model.run(30)
    assert model.hints == {}


@pytest.mark.parametrize("seed", range(8))
async def test_any_fleet_comes_to_rest(seed: int) -> None:
    """Demand changes, forwarders die and come; then all stays as it is, and so do the hints.

    Messages cost differently from topic to topic, which the reports do not tell."""
    model = Model(4, seed)
    draw = model.random
    parts: list[list[Unit]] = []
    total = 0.0
    while total < 1.6:
        topic = model.topic(draw.choice([1, 1, 2, 4, 8]))
        cpu_s = draw.choice([5e-5, 1e-4, 2e-4])
        for _ in range(draw.choice([1, 1, 2, 5])):
            each = draw.uniform(0.005, 0.15) / len(topic)
            parts.append(model.subscription(topic, each, cpu_s))
            total += each * len(topic)
    for _ in range(draw.randrange(6)):
        some = draw.choice(parts)
        model.demand(some, draw.uniform(0.0, 0.2) / len(some))
        if draw.random() < 0.4:
            model.kill(draw.choice(sorted(model.processes)))
            await model.run(draw.randrange(30))
            model.start()
        await model.run(draw.randrange(4 * MINUTE))
    await model.run(15 * MINUTE)
    assert await model.run(20 * MINUTE) == [], f"seed {seed}"
    assert max(process.used for process in model.processes.values()) < 1.0
    assert model.backlog < 1
    assert_bounded(model.decisions)


def assert_bounded(decisions: list[Decision]) -> None:
    """A round makes few changes, and a unit rests after a move before it is moved again."""
    moved: dict[Unit, float] = {}
    for decision in decisions:
        each = zip(decision.put, decision.kinds, strict=True)
        changes = {unit.topic_uid if kind == "topic" else unit for unit, kind in each}
        assert len(changes) <= 4
        for unit in decision.put:
            assert decision.at_s - moved.get(unit, 0.0) >= 30
            moved[unit] = decision.at_s


def test_what_takes_away_and_what_brings_back_are_far_apart() -> None:
    assert EMPTY_ENOUGH < ROOM < FULL
    assert home(b"topic", {}) is None
