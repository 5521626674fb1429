"""The verdict whether a figure levels off, from its slope over the second half of a run.

Processes are killed and start small again. So slopes are those within the lives of a process, of
all lives together, without the first minutes of each life; and, so that a process that starts
larger each time is found, too, the slope over all lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

HOUR_S = 3600.0
LEAST_SPAN_S = 900.0
"""The second half must be this long: slopes of a few minutes say nothing of hours."""
MOST_GROWTH = 0.05
"""The share of its level by which a figure may grow in an hour."""


class Sample(NamedTuple):
    """One reading; `life` numbers the lives of the process, and `age_s` is its age."""

    time_s: float
    life: int
    age_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Level:
    """The verdict on one figure; slopes are per hour."""

    name: str
    samples: int
    level: float
    within_lives: float
    over_lives: float
    limit: float
    judged: bool
    """Whether the run was long enough."""

    @property
    def holds(self) -> bool:
        """Return whether it levels off, or nothing can be said."""
        return not self.judged or max(self.within_lives, self.over_lives) <= self.limit


def judge(
    name: str, samples: Sequence[Sample], half_s: float, settle_s: float, floor: float
) -> Level:
    """Judge the samples from `half_s` on of lives older than `settle_s`.

    A growth by `floor` in an hour is allowed, however small the level is.
    """
    kept = [each for each in samples if each.time_s >= half_s and each.age_s >= settle_s]
    level = median([each.value for each in kept]) if kept else float("nan")
    span_s = kept[-1].time_s - kept[0].time_s if kept else 0.0
    return Level(
        name,
        len(kept),
        level,
        slope(kept, by_life=True) * HOUR_S,
        slope(kept, by_life=False) * HOUR_S,
        max(floor, level * MOST_GROWTH),
        span_s >= LEAST_SPAN_S,
    )


def slope(samples: Sequence[Sample], *, by_life: bool) -> float:
    """Return the slope per second by least squares; `by_life` each life has a level of its own."""
    lives: dict[int, list[Sample]] = {}
    for sample in samples:
        lives.setdefault(sample.life if by_life else 0, []).append(sample)
    above = below = 0.0
    for life in lives.values():
        mean_s = sum(each.time_s for each in life) / len(life)
        mean = sum(each.value for each in life) / len(life)
        above += sum((each.time_s - mean_s) * (each.value - mean) for each in life)
        below += sum((each.time_s - mean_s) ** 2 for each in life)
    return above / below if below else 0.0
