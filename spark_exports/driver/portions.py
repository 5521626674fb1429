"""How much of a run one job of Spark gets.

Tasks on a cluster read with the token that their job was planned with, and a token lasts for an
hour; those of a local master follow a file. So on a cluster a run is as many jobs as it takes for
each to be over in a part of that time. A job waits for the slowest of its tasks, so few of them are
better than many: how large one may be is found out by how long the one before took. A slice is a
task's, so that one slice is read within the hour is all that is asked of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from spark_exports.order import Range

JOB_S = 900.0
"""What a job should take: a quarter of what a token lasts, so that slices that are four times as
slow as those before are still read with it."""
MOST_GROWTH = 4
"""From one job to the next: slices of another topic may be slower."""


def portions(
    slices: Sequence[Range],
    first: int,
    job_s: float = JOB_S,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Sequence[Range]]:
    """All slices, in their order; at first so many, then what is done in `job_s` by the pace of the
    portion before. The time of a portion is what passes until the next one is asked for."""
    at, size = 0, first
    while at < len(slices):
        began_s = clock()
        portion = slices[at : at + size]
        yield portion
        at += len(portion)
        took_s = clock() - began_s
        in_time = int(len(portion) * job_s / took_s) if took_s > 0 else len(slices)
        size = max(1, min(in_time, size * MOST_GROWTH))
