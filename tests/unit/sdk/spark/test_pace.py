"""Bytes a second."""

from __future__ import annotations

from packetboat.spark.pace import Pace


class Clock:
    """Time passes while somebody waits, or is said to have."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


def test_the_mean_holds_whatever_the_sizes() -> None:
    clock = Clock()
    pace = Pace(1000.0, clock, clock.wait)
    for size in (1, 999, 5000, 0, 10, 3990):
        pace.took(size)
    assert clock.now_s == 110.0


def test_time_that_was_not_used_is_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(1000.0, clock, clock.wait)
    pace.took(1000)
    clock.now_s += 60
    pace.took(2000)
    assert clock.now_s == 100 + 1 + 60 + 2


def test_without_a_rate_nobody_waits() -> None:
    clock = Clock()
    Pace(None, clock, clock.wait).took(10**12)
    assert clock.now_s == 100.0
