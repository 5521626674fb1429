"""Offsets of the topics of an export: where it begins, where they end now, and what a range is.

All of it is asked of the store, of every lane at once and of so many at a time. Raises StoreError
where a group does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from gateway.exports.specs import parsed_time
from metadata.exports.types import Lane, LaneEnd, LanePosition, LaneRange, LaneState
from metadata.types import Topic
from subscribe_forwarder.reading.places import Bounds, OffsetStore, at_time, bounds

ASKED_AT_ONCE = 64
"""Questions to the store."""
T = TypeVar("T")


class Window(NamedTuple):
    """What of each lane a run is to read: a time, or an offset, or neither at each end."""

    from_time: datetime | None = None
    to_time: datetime | None = None
    from_offset: int | None = None
    to_offset: int | None = None


class Offsets:
    """Of one process."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)

    async def starts(self, topics: Sequence[Topic], start: str) -> list[LanePosition]:
        """Of an export that is made now: `start` as its spec has it."""
        time = parsed_time(start)

        async def one(topic: Topic, lane: Lane) -> LanePosition:
            found = await bounds(self._store, topic, lane.partition, lane.lane)
            if time is not None:
                return LanePosition(lane, found.clamp(await self._at(topic, lane, time)))
            return LanePosition(lane, found.first if start == "earliest" else found.end)

        return await self._each(topics, one)

    async def ends(self, topics: Sequence[Topic]) -> list[LaneEnd]:
        """All that was published before the call is below them."""

        async def one(topic: Topic, lane: Lane) -> LaneEnd:
            found = await bounds(self._store, topic, lane.partition, lane.lane)
            return LaneEnd(lane, found.end)

        return await self._each(topics, one)

    async def states(self, topics: Sequence[Topic], known: Iterable[LaneState]) -> list[LaneState]:
        """How far an export is in each lane there is now: where nothing is known of it yet, it will
        begin with the first message."""
        offsets = {each.lane: each.offset for each in known}

        async def one(topic: Topic, lane: Lane) -> LaneState:
            found = await bounds(self._store, topic, lane.partition, lane.lane)
            return LaneState(lane, offsets.get(lane, found.first), found.end)

        return await self._each(topics, one)

    async def ranges(
        self,
        topics: Sequence[Topic],
        window: Window,
        *,
        partition: int | None = None,
        upto: Iterable[LaneState] | None = None,
    ) -> list[LaneRange]:
        """What is stored in the window, of lanes that have something there; with `upto`, of what is
        exported."""
        most = None if upto is None else {each.lane: each.offset for each in upto}

        async def one(topic: Topic, lane: Lane) -> LaneRange | None:
            if partition not in (None, lane.partition) or (most is not None and lane not in most):
                return None
            found = await bounds(self._store, topic, lane.partition, lane.lane)
            start = await self._place(topic, lane, found, window.from_time, window.from_offset)
            end = await self._place(topic, lane, found, window.to_time, window.to_offset)
            first = found.first if start is None else start
            last = found.end if end is None else end
            if most is not None:
                last = min(last, most[lane])
            return LaneRange(lane, first, last) if first < last else None

        return [each for each in await self._each(topics, one) if each is not None]

    async def _place(
        self, topic: Topic, lane: Lane, found: Bounds, time: datetime | None, offset: int | None
    ) -> int | None:
        if offset is not None:
            return found.clamp(offset)
        return None if time is None else found.clamp(await self._at(topic, lane, time))

    async def _at(self, topic: Topic, lane: Lane, time: datetime) -> int:
        time_us = max(0, int(time.timestamp() * 1_000_000))
        return await at_time(self._store, topic, lane.partition, lane.lane, time_us)

    async def _each(
        self, topics: Sequence[Topic], ask: Callable[[Topic, Lane], Awaitable[T]]
    ) -> list[T]:
        """By topic, partition and lane."""

        async def asked(topic: Topic, lane: Lane) -> T:
            async with self._asking:
                return await ask(topic, lane)

        async with asyncio.TaskGroup() as tasks:
            asks = [
                tasks.create_task(asked(topic, lane))
                for topic in topics
                for lane in lanes_of(topic)
            ]
        return [ask.result() for ask in asks]


def lanes_of(topic: Topic) -> list[Lane]:
    found = (Lane(topic.name, topic.uid, each.number, each.lane) for each in topic.partitions)
    return sorted(found)
