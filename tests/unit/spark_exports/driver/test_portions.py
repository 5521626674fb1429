"""The size of jobs follows the time they take, and nothing is read twice or left out."""

from __future__ import annotations

import pytest
from packetboat.models.export_runs import LaneKey, LaneRange

from spark_exports.driver.portions import MOST_GROWTH, portions

JOB_S = 100.0


def slices(count: int) -> list[LaneRange]:
    return [LaneRange(LaneKey("orders", "", 0, 0), at, at + 1) for at in range(count)]


class Work:
    """A job that does slices one after the other, each in a given time."""

    def __init__(self, *seconds: float) -> None:
        self.now_s = 0.0
        self.sizes: list[int] = []
        self.took_s: list[float] = []
        self._seconds = seconds

    def do(self, count: int, first: int) -> None:
        wanted = slices(count)
        done: list[LaneRange] = []
        for portion in portions(wanted, first, JOB_S, lambda: self.now_s):
            took_s = sum(self._slice_s(at) for at in range(len(done), len(done) + len(portion)))
            self.now_s += took_s
            done += portion
            self.sizes.append(len(portion))
            self.took_s.append(took_s)
        assert done == wanted

    def _slice_s(self, at: int) -> float:
        return self._seconds[min(at, len(self._seconds) - 1)]


def test_a_short_run_is_one_job() -> None:
    work = Work(1.0)
    work.do(4, first=4)
    assert work.sizes == [4]


def test_jobs_grow_to_what_is_done_in_time() -> None:
    work = Work(1.0)
    work.do(500, first=2)
    assert work.sizes[:4] == [2, 2 * MOST_GROWTH, 2 * MOST_GROWTH**2, 100]
    assert max(work.took_s) == JOB_S


def test_jobs_become_small_where_slices_become_slow() -> None:
    """The first of those was planned by the pace before: for that is the rest of a token's time."""
    work = Work(*[1.0] * 100, 4.0)
    work.do(225, first=100)
    assert work.sizes == [100, 100, 25]
    assert work.took_s == [100.0, 400.0, 100.0]


@pytest.mark.parametrize("slice_s", [JOB_S, 50 * JOB_S])
def test_a_slice_is_never_cut(slice_s: float) -> None:
    work = Work(slice_s)
    work.do(5, first=1)
    assert work.sizes == [1] * 5


def test_what_takes_no_time_at_all_is_no_error() -> None:
    work = Work(0.0)
    work.do(50, first=3)
    assert work.sizes == [3, 12, 35]


def test_nothing_is_nothing() -> None:
    work = Work(1.0)
    work.do(0, first=3)
    assert work.sizes == []
