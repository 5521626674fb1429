"""The publisher's core in a seeded world that loses, delays, cuts and refuses in part."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from packetboat.errors import NotDone, PrecedingFailed, UnknownOutcome
from packetboat.models import Receipt
from packetboat.publisher.settings import PublisherSettings

from tests.unit.sdk.publisher_model import WRONG, Simulation, message

MESSAGES = 200


def simulate(seed: int) -> Simulation:
    """Publish messages with and without keys.

    Some have idempotency keys of their own, and some are wrong.
    """
    random = Random(seed)
    settings = PublisherSettings(
        max_batch_messages=random.choice([1, 7, 100, 1000]),
        max_batch_bytes=random.choice([200, 100_000]),
        max_batches_in_flight=random.choice([1, 2, 4]),
        max_buffered_messages=random.choice([50, 1000]),
        linger_s=random.choice([0, 0, 0.01]),
        deadline_s=random.choice([0.3, 5, 60]),
    )
    world = Simulation(seed, settings, harm=random.choice([0.1, 0.5, 0.9]))
    keys = [None, *(f"key {n}" for n in range(random.choice([1, 5, 50])))]
    wrong = random.choice([0, 0.02])

    def publish(number: int) -> None:
        data = b"%d" % number
        if random.random() < wrong:
            data = WRONG + data
        own = f"own {number}" if random.random() < 0.1 else None
        world.patiently(message(data, random.choice(keys), own))

    at_s = 0.0
    for number in range(MESSAGES):
        at_s += random.choice([0, 0, 0, 0.001, 0.02])
        world.at(at_s, lambda number=number: publish(number))  # type: ignore[misc]
    world.run()
    return world


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    world = simulate(seed)
    stored = [item for partition in world.store.partitions for item in partition]
    copies = Counter(item["data"] for item in stored)
    assert len(world.outcomes) == MESSAGES
    assert set(copies.values()) <= {1}
    for data, outcome in world.outcomes.items():
        if isinstance(outcome, Receipt):
            assert copies[data] == 1
            place = world.store.partitions[outcome.partition][outcome.offset or 0]
            assert place["data"] == data
        elif isinstance(outcome, NotDone):
            assert copies[data] == 0, outcome
        else:
            assert isinstance(outcome, UnknownOutcome)
            assert outcome.idempotency_key
    in_order(world)


def in_order(world: Simulation) -> None:
    """Check that the messages of each key that have a receipt are stored in the order of
    publishing.
    """
    published: dict[str, list[bytes]] = {}
    for each in world.accepted:
        data = world.data(each)
        if each.key is not None and isinstance(world.outcomes[data], Receipt):
            published.setdefault(each.key, []).append(data)
    for key, expected in published.items():
        found = [
            item["data"]
            for partition in world.store.partitions
            for item in partition
            if item.get("key") == key and isinstance(world.outcomes[item["data"]], Receipt)
        ]
        assert found == expected


@pytest.mark.parametrize("seed", range(15))
def test_what_is_unknown_is_published_again_once(seed: int) -> None:
    world = simulate(seed)
    unknown = {d: e for d, e in world.outcomes.items() if isinstance(e, UnknownOutcome)}
    keys = {world.data(each): each.key for each in world.accepted}
    world.harm, world.repeating = 1e-9, True
    for data, error in unknown.items():
        del world.outcomes[data]
        world.accepted.pop()
        world.patiently(message(data, keys[data], error.idempotency_key))
    world.run()
    copies = Counter(item["data"] for part in world.store.partitions for item in part)
    assert set(copies.values()) <= {1}
    for data in unknown:
        if not isinstance(world.outcomes[data], UnknownOutcome):
            assert copies[data] == isinstance(world.outcomes[data], Receipt)


def test_the_seeds_see_every_kind_of_end() -> None:
    kinds = Counter(
        type(outcome) for seed in range(15) for outcome in simulate(seed).outcomes.values()
    )
    assert kinds[Receipt] > 0.5 * sum(kinds.values())
    assert kinds[UnknownOutcome]
    assert kinds[PrecedingFailed]


def test_with_enough_time_all_are_stored() -> None:
    world = Simulation(7, PublisherSettings(deadline_s=1000), harm=0.95)
    for number in range(MESSAGES):
        world.publish(message(b"%d" % number, f"key {number % 5}"))
    world.run()
    assert all(isinstance(outcome, Receipt) for outcome in world.outcomes.values())
    in_order(world)
