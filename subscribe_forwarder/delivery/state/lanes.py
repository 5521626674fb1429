"""Places of a topic, and which priority is served next.

A priority is a lane: each partition has one queue per priority. The highest that has something goes
first, and what is passed over ages: with every message delivered elsewhere while a lane has some of
its own, the lane earns `1/AGING` of a turn, and a turn earned goes before any priority. So a lane
that always has something gets at least one delivery in `AGING + 1`, whatever is above it, and what
is published at the top waits for the turns that were earned and no more.

Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

AGING = 16
"""Deliveries of others for one turn: 1 in 17 is 5.9 %."""
MAX_TURNS = 128
"""A lane keeps no more than these: what could not be served for long is no flood later."""


class Lane(NamedTuple):
    """One queue of a topic at a time, and one cursor of each subscription."""

    partition: int
    lane: int = 0


class Share(NamedTuple):
    """Up to `most` messages of one priority."""

    priority: int
    most: int


class Lanes:
    """The turns of one subscription's priorities. In memory only: a new owner starts even."""

    def __init__(self) -> None:
        self._earned: dict[int, int] = {}
        """By priority, in parts: `AGING` of them are a turn."""

    def plan(self, ready: Iterable[int], most: int) -> list[Share]:
        """Return the shares of a pull of up to `most` messages between the priorities that may have
        messages.

        The turns that they have earned come first, then the rest from the highest priority down.
        """
        priorities = sorted(ready, reverse=True)
        turns = {priority: self._earned.get(priority, 0) // AGING for priority in priorities}
        shares: list[Share] = []
        left = most
        for priority in sorted(turns, key=lambda one: (-turns[one], one)):
            share = min(turns[priority], left)
            if share:
                shares.append(Share(priority, share))
                left -= share
        return shares + [Share(priority, most) for priority in priorities]

    def delivered(self, counts: Mapping[int, int], ready: Iterable[int]) -> None:
        """Count the delivered messages of each priority, while `ready` had messages."""
        total = sum(counts.values())
        if not total:
            return
        earned: dict[int, int] = {}
        for priority in ready:
            own = counts.get(priority, 0)
            parts = self._earned.get(priority, 0) + (total - own) - AGING * own
            earned[priority] = max(0, min(parts, AGING * MAX_TURNS))
        self._earned = earned
