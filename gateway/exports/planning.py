"""Offsets of the topics of an export: its starts, the present ends, and the ranges of its runs.

The store is asked about all lanes at once, with `ASKED_AT_ONCE` questions at a time. Raises
StoreError if a group does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from gateway.exports.specs import parsed_time
from metadata.exports.types import Lane, LaneEnd, LanePosition, LaneRange, LaneState
from metadata.types import Topic
from positions.places import Bounds, at_time, bounds
from store_nodes.client import StoreClient

ASKED_AT_ONCE = 64
"""The limit of open questions to the store."""
T = TypeVar("T")


class Window(NamedTuple):
    """The part of each lane that a run reads: a time, an offset or neither at each end."""

    from_time: datetime | None = None
    to_time: datetime | None = None
    from_offset: int | None = None
    to_offset: int | None = None


class Offsets:
    """Questions about offsets that one process asks the store."""

    def __init__(self, store: StoreClient) -> None:
        self._store = store
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)

    async def starts(self, topics: Sequence[Topic], start: str) -> list[LanePosition]:
        """Return the first positions of a new export; `start` is the value in its spec."""
        time = parsed_time(start)

        async def one(topic: Topic, lane: Lane) -> LanePosition:
            found = await bounds(self._store, topic, lane.partition, lane.lane)
            if time is not None:
                return LanePosition(lane, found.clamp(await self._at(topic, lane, time)))
            return LanePosition(lane, found.first if start == "earliest" else found.end)

        return await self._each(topics, one)

    async def ends(self, topics: Sequence[Topic]) -> list[LaneEnd]:
        """Return the end of each lane; every message published before the call is below it."""

        async def one(topic: Topic, lane: Lane) -> LaneEnd:
            found = await bounds(self._store, topic, lane.partition, lane.lane)
            return LaneEnd(lane, found.end)

        return await self._each(topics, one)

    async def states(self, topics: Sequence[Topic], known: Iterable[LaneState]) -> list[LaneState]:
        """Return the position of an export in each present lane.

        In a lane of which nothing is known yet, it begins with the first message.
        """
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
        """Return the ranges of stored messages in the window, of lanes that have some; with
        `upto`, only of exported messages.
        """
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
        """Return the answers in the order of topic, partition and lane."""

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
