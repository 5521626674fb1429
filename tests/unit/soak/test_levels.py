"""Slopes: what grows is found, also in a process that is killed again and again."""

from __future__ import annotations

from collections.abc import Callable

from tests.soak.levels import Level, Sample, judge

LIFE_S = 1200
EVERY_S = 10


def judged(value: Callable[[float, int, float], float], hours: float = 2.0) -> Level:
    """Judge a figure that is a function of time, life and age."""
    samples = [
        Sample(at, at // LIFE_S, at % LIFE_S, value(at, at // LIFE_S, at % LIFE_S))
        for at in range(0, int(hours * 3600), EVERY_S)
    ]
    return judge("memory", samples, hours * 1800, settle_s=300, floor=2.0)


def test_a_figure_that_stays_levels_off() -> None:
    level = judged(lambda time_s, life, age_s: 100.0 + time_s % 3)
    assert level.judged
    assert level.holds
    assert round(level.level) == 101


def test_growth_within_each_life_is_found() -> None:
    level = judged(lambda time_s, life, age_s: 100.0 + age_s / 100)
    assert round(level.within_lives) == 36
    assert not level.holds


def test_growth_from_life_to_life_is_found() -> None:
    level = judged(lambda time_s, life, age_s: 100.0 + 10 * life)
    assert level.within_lives == 0
    assert not level.holds


def test_growth_of_the_first_minutes_of_a_life_is_no_fault() -> None:
    assert judged(lambda time_s, life, age_s: 100.0 + min(age_s, 300) / 10).holds


def test_growth_of_the_first_half_is_no_fault() -> None:
    assert judged(lambda time_s, life, age_s: 100.0 + min(time_s, 3600) / 10).holds


def test_a_short_run_is_not_judged() -> None:
    level = judged(lambda time_s, life, age_s: time_s, hours=0.2)
    assert not level.judged
    assert level.holds


def test_a_little_growth_of_a_small_figure_is_no_fault() -> None:
    assert judged(lambda time_s, life, age_s: 1.0 + time_s / 3600).holds
    assert not judged(lambda time_s, life, age_s: 1.0 + 3 * time_s / 3600).holds
