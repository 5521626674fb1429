"""The backlogs of all subscriptions, for metrics: their number of messages, and their age.

A message's age counts from the look that first found it in the log. A scheduler that took over a
moment ago knows nothing of the time before, so an age is never too high, and is right once the
scheduler has led for that long.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from metadata.topics.retention import Floors, LaneKey, RetentionRepository
from scheduler import metrics
from scheduler.sizes import Sizes
from scheduler.term import put_off
from scheduler.topic_map import TopicMap

EVERY_S = 15.0
MAX_SAMPLES = 64
"""Samples of a lane; beyond it every second one is dropped, so that ages become less exact."""


class Sample(NamedTuple):
    """The end of a lane at a moment: messages below `end` were known from then on."""

    end: int
    at_s: float


class Backlogs:
    """The metrics of backlogs, in one term of leadership."""

    def __init__(self, topics: TopicMap, retention: RetentionRepository, sizes: Sizes) -> None:
        self._topics = topics
        self._retention = retention
        self._sizes = sizes
        self._ages = Ages()

    async def run(self) -> None:
        """Measure backlogs regularly; a scheduler that no longer leads reports 0."""
        try:
            while True:
                await put_off("backlogs", self.look())
                await asyncio.sleep(EVERY_S)
        finally:
            metrics.backlog_messages.set(0)
            metrics.backlog_age_seconds.set(0)

    async def look(self) -> None:
        """Measure the backlogs once. Raises MetadataError."""
        floors = await self._retention.floors()
        ends = self._ends(floors)
        left = sum(_left(ends[key], held) for key, held in floors.items() if key in ends)
        metrics.backlog_messages.set(left)
        metrics.backlog_age_seconds.set(self._ages.oldest_s(floors, ends, time.monotonic()))

    def _ends(self, floors: Mapping[LaneKey, Floors]) -> dict[LaneKey, int]:
        """Return the ends of lanes whose groups have answered once."""
        ends = {}
        for key, generations in self._topics.lanes.items():
            if key in floors and (info := self._sizes.of(key, generations[-1])) is not None:
                ends[key] = info.end
        return ends


class Ages:
    """The times for which the oldest unread messages have been known."""

    def __init__(self) -> None:
        self._samples: dict[LaneKey, list[Sample]] = {}

    def oldest_s(
        self, floors: Mapping[LaneKey, Floors], ends: Mapping[LaneKey, int], now_s: float
    ) -> float:
        """Return the age of the oldest unread message; 0.0 if all are read.

        `now_s` never goes back.
        """
        oldest_s = 0.0
        kept = {}
        for key, end in ends.items():
            samples = self._samples.get(key, [])
            if not samples or samples[-1].end < end:
                samples.append(Sample(end, now_s))
            del samples[: bisect_right(samples, floors[key].lowest, key=lambda one: one.end)]
            if samples:
                kept[key] = _thinned(samples)
                oldest_s = max(oldest_s, now_s - samples[0].at_s)
        self._samples = kept
        return oldest_s


def _thinned(samples: list[Sample]) -> list[Sample]:
    """Return fewer samples; the first stays, and of two the earlier is dropped.

    Messages of a dropped sample then count as younger.
    """
    if len(samples) <= MAX_SAMPLES:
        return samples
    return [samples[0], *(late for _, late in list(pairwise(samples))[::2])]


def _left(end: int, floors: Floors) -> int:
    return max(0, end * floors.cursors - floors.total)
