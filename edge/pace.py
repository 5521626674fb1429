"""The rate of work that a process can do under overload, found by trying.

The pace is unlimited until work begins to queue. Then it is set a little below the rate so far.
While work goes on queueing it is reduced again, once in `CUT_S`, since the last cut needs that long
to show. While nothing queues it grows, the faster the longer nothing does. It is unlimited again
when for `CALM_S` so little was wanted that the pace held nothing back. It never goes below a part
of the highest recent rate: if that is too much, the cost is that of refusing the rest, and not that
of the work. Pure: the caller counts, and passes the counts.
"""

from __future__ import annotations

CUT_S = 0.5
CALM_S = 1.0
LEAST_PER_S = 20.0
LEAST_PART = 1 / 2
"""Part of the highest recent rate below which the pace does not go."""
LATELY_S = 300.0
"""Seconds after which a rate counts for a third: a machine can become slower."""
_GROWTH_PER_S = 0.25
_STEADY_S = 3.0
"""Seconds after a cut from which on the pace grows faster: the right rate is far away."""
_FIRST_CUT = 0.1
_CUT = 0.2
_SLACK = 0.85
_SMOOTHED_S = 0.5


class Pace:
    """A pace; call `tick` a few times a second."""

    __slots__ = ("_calm_s", "_most_per_s", "_since_cut_s", "_went_per_s", "per_second")

    def __init__(self) -> None:
        self.per_second: float | None = None
        """Allowed rate; None means unlimited."""
        self._went_per_s = self._most_per_s = 0.0
        self._since_cut_s = 0.0
        self._calm_s = 0.0

    def tick(self, *, went: float, wanted: float, took_s: float, overloaded: float) -> None:
        """Adapt the pace to the last `took_s`, in which `went` of `wanted` were done.

        `overloaded` is from 0 to 1.
        """
        went_per_s = went / took_s
        self._went_per_s += min(1.0, took_s / _SMOOTHED_S) * (went_per_s - self._went_per_s)
        self._most_per_s = max(self._went_per_s, self._most_per_s * (1.0 - took_s / LATELY_S))
        self._since_cut_s += took_s
        if self.per_second is None:
            if overloaded > 0:
                self._cut(self._went_per_s, _FIRST_CUT)
            return
        if overloaded > 0:
            self._calm_s = 0.0
            if self._since_cut_s >= CUT_S:
                self._cut(min(self.per_second, self._went_per_s), _CUT * overloaded)
            return
        held = wanted > _SLACK * self.per_second * took_s
        self._calm_s = 0.0 if held else self._calm_s + took_s
        self.per_second *= 1.0 + _GROWTH_PER_S * max(1.0, self._since_cut_s / _STEADY_S) * took_s
        if self._calm_s >= CALM_S:
            self.per_second = None

    def _cut(self, from_per_s: float, by: float) -> None:
        least = max(LEAST_PER_S, LEAST_PART * self._most_per_s)
        self.per_second = max(least, from_per_s * (1.0 - by))
        self._since_cut_s = self._calm_s = 0.0
