"""The part of a run that one job of Spark gets.

Tasks on a cluster read with the token that their job was planned with, and a token is valid for an
hour; those of a local master follow a file. So on a cluster a run is split into jobs that each end
in a part of that time. A job waits for the slowest of its tasks, so few jobs are better than many:
the size of a job is adapted to the time that the one before took. A slice is read by one task, so a
run needs no more than that one slice is read within the hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from packetboat.models.export_runs import LaneRange

JOB_S = 900.0
"""Seconds that a job should take: a quarter of the life of a token.

So slices that are four times as slow as those before are still read with it.
"""
MOST_GROWTH = 4
"""Growth of a portion at most, since slices of another topic may be slower."""


def portions(
    slices: Sequence[LaneRange],
    first: int,
    job_s: float = JOB_S,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Sequence[LaneRange]]:
    """Yield all slices in their order, at first `first` together.

    A later portion has as many as take `job_s` at the pace of the portion before. The time of a
    portion is the time until the next one is asked for.
    """
    at, size = 0, first
    while at < len(slices):
        began_s = clock()
        portion = slices[at : at + size]
        yield portion
        at += len(portion)
        took_s = clock() - began_s
        in_time = int(len(portion) * job_s / took_s) if took_s > 0 else len(slices)
        size = max(1, min(in_time, size * MOST_GROWTH))
