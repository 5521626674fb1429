"""The age of the oldest message that somebody still has to read, found from ends and floors."""

from __future__ import annotations

import random

from metadata.topics.retention import Floors, LaneKey
from scheduler.backlogs import MAX_SAMPLES, Ages

LANE = LaneKey(b"t", b"topic", 0, 0)
OTHER = LaneKey(b"t", b"topic", 1, 0)


def look(ages: Ages, floor: int, end: int, now_s: float) -> float:
    return ages.oldest_s({LANE: Floors(floor, 1, floor)}, {LANE: end}, now_s)


def test_a_message_ages_from_the_look_that_found_it() -> None:
    ages = Ages()
    assert look(ages, 0, 0, 0.0) == 0.0
    assert look(ages, 0, 5, 10.0) == 0.0
    assert look(ages, 0, 9, 25.0) == 15.0
    assert look(ages, 5, 9, 40.0) == 15.0, "what came by 10 s is settled"
    assert look(ages, 7, 9, 60.0) == 35.0, "one of those that came by 25 s is not"
    assert look(ages, 9, 9, 70.0) == 0.0
    assert look(ages, 9, 10, 80.0) == 0.0


def test_the_oldest_of_all_lanes_counts_and_lanes_that_are_gone_do_not() -> None:
    ages = Ages()
    floors = {LANE: Floors(0, 1, 0), OTHER: Floors(0, 1, 0)}
    ages.oldest_s(floors, {LANE: 1}, 0.0)
    assert ages.oldest_s(floors, {LANE: 1, OTHER: 1}, 5.0) == 5.0
    assert ages.oldest_s(floors, {OTHER: 1}, 9.0) == 4.0
    assert ages.oldest_s(floors, {LANE: 1, OTHER: 1}, 20.0) == 15.0, "known anew from here on"


def test_what_is_kept_is_bounded_and_an_age_is_never_too_high() -> None:
    """The ages are compared with a model that remembers when each message was found."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    ages, found = Ages(), list[float]()
    floor = 0
    for second in range(2000):
        found += [float(second)] * rng.choice((0, 1, 3))
        floor = rng.randint(floor, min(len(found), floor + 2))
        known = found[floor:]
        age = look(ages, floor, len(found), float(second))
        assert age <= (second - known[0] if known else 0.0)
        assert age > 0 or not known or second - known[0] <= second / 4 + 1
    assert len(ages._samples[LANE]) <= MAX_SAMPLES + 1
