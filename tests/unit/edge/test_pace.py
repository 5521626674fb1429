from __future__ import annotations

import math

import pytest

from edge.pace import LATELY_S, LEAST_PART, LEAST_PER_S, Pace

TICK_S = 0.1


def run(pace: Pace, seconds: float, wanted_per_s: float, overloaded: float) -> None:
    """So much is wanted, and as much goes as may."""
    for _ in range(round(seconds / TICK_S)):
        may = wanted_per_s if pace.per_second is None else min(wanted_per_s, pace.per_second)
        pace.tick(
            went=may * TICK_S, wanted=wanted_per_s * TICK_S, took_s=TICK_S, overloaded=overloaded
        )


@pytest.fixture
def pace() -> Pace:
    pace = Pace()
    run(pace, 5, 1000, 0.0)
    assert pace.per_second is None
    return pace


def test_the_first_limit_is_a_little_less_than_what_went(pace: Pace) -> None:
    run(pace, TICK_S, 1000, 0.5)
    assert pace.per_second == pytest.approx(900, rel=0.02)


def test_it_falls_while_work_queues_and_no_oftener_than_a_cut_shows(pace: Pace) -> None:
    run(pace, 0.4, 1000, 1.0)
    first = pace.per_second
    run(pace, 2, 1000, 1.0)
    assert first is not None
    assert pace.per_second is not None
    assert first * 0.8**5 < pace.per_second < first * 0.8**2


def test_a_part_of_the_most_that_went_lately_always_goes(pace: Pace) -> None:
    run(pace, 30, 1000, 1.0)
    assert pace.per_second == pytest.approx(LEAST_PART * 1000 * math.exp(-30 / LATELY_S), rel=0.05)
    few = Pace()
    run(few, 60, 10, 1.0)
    assert few.per_second == LEAST_PER_S


def test_work_that_queues_from_the_first_moment_of_a_flood_does_not_set_the_pace(
    pace: Pace,
) -> None:
    """The flood comes at once, after a calm minute, so the rate before says nothing."""
    run(pace, 60, 20, 0.0)
    run(pace, 1, 5000, 1.0)
    assert pace.per_second is not None
    assert pace.per_second > 400


def test_it_grows_the_faster_the_longer_nothing_queues(pace: Pace) -> None:
    run(pace, TICK_S, 1000, 1.0)
    slow = float(pace.per_second or 0)
    run(pace, 1, 50_000, 0.0)
    assert slow * 1.2 < float(pace.per_second or 0) < slow * 1.35
    run(pace, 9, 50_000, 0.0)
    assert float(pace.per_second or 0) > slow * 30


def test_it_stays_a_limit_while_it_limits(pace: Pace) -> None:
    run(pace, TICK_S, 1000, 1.0)
    run(pace, 3, 5000, 0.0)
    assert pace.per_second is not None


def test_a_second_of_less_than_it_allows_ends_it(pace: Pace) -> None:
    run(pace, TICK_S, 1000, 1.0)
    run(pace, 0.9, 100, 0.0)
    assert pace.per_second is not None
    run(pace, 0.3, 100, 0.0)
    assert pace.per_second is None
