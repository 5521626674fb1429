"""Stamps log time with the median of the clocks that a majority of voters reported last.

So one wrong clock, even the leader's, cannot move log time ahead. Clocks are kept as offsets from
this node's monotonic time, so a report stays usable between heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable


class LogClock:
    """The wall clocks of the members as one replica last heard them; only voters' clocks count."""

    def __init__(self, voters: Iterable[int]) -> None:
        self._offsets_us: dict[int, tuple[int, int]] = {}
        self.count(voters)

    def count(self, voters: Iterable[int]) -> None:
        """Count the clocks of these voters from now on."""
        self._voters = frozenset(voters)
        self._majority = len(self._voters) // 2 + 1

    def report(self, node: int, wall_us: int, now_us: int) -> None:
        """Note a node's wall clock; `wall_us` is 0 if the node has not looked at it yet."""
        if wall_us:
            self._offsets_us[node] = (wall_us - now_us, now_us)

    @property
    def ready(self) -> bool:
        """Whether a majority has ever reported; later, a report may be too old to count."""
        return len(self._voters & self._offsets_us.keys()) >= self._majority

    def median_us(self, now_us: int, max_age_us: int) -> int:
        """Return the lower median of the clocks heard within `max_age_us`; 0 if those are no
        majority.

        The leader's own clock alone decides nothing.
        """
        offsets = sorted(
            offset
            for node, (offset, heard) in self._offsets_us.items()
            if now_us - heard <= max_age_us and node in self._voters
        )
        if len(offsets) < self._majority:
            return 0
        return max(0, now_us + offsets[(len(offsets) - 1) // 2])

    def of(self, node: int, now_us: int) -> int:
        """Return a node's wall clock, carried on from its last report; 0 if it never reported."""
        entry = self._offsets_us.get(node)
        return now_us + entry[0] if entry else 0
