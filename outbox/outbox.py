"""Appends messages of the platform to topics, each once.

A message has a name that its cause gives it (a dead letter's name is its source, a schedule's is
the time of the run). The log remembers names for a day (`NAMES_KEPT_S`). So a caller that does not
know whether a message was stored (after a crash or an unanswered append) appends it again under the
same name and learns its place. Only the append's answer must be durable before the cause is marked
as done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

from appending.chunks import chunks
from appending.sender import Name
from appending.writer import NAMES_KEPT_S, Batch, Target, Writer
from metadata.types import Topic
from outbox.item import Item, StoredPosition, placed, placed_before
from outbox.routing import route_of, way_of
from store_nodes.client import StoreClient
from store_nodes.errors import Known
from store_nodes.record_batch import Message


class TopicFull(Exception):
    """The topic takes no messages now.

    `kind` is `topic-full` or `tenant-full`; the text says how to make room.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail or kind)
        self.kind = kind


class Outbox:
    """Appends messages of the platform; one per process, used on one event loop."""

    def __init__(
        self,
        store: StoreClient,
        timeout_s: float = 5.0,
        *,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._writer = Writer(store, timeout_s, wall_us=wall_us)
        self._wall_us = wall_us

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        """Append messages; return their places in the order given.

        Those of one partition are stored in that order. Raises TopicFull, and StoreError: then some
        may be stored, and it is safe to repeat all of it.
        """
        if topic.full is not None:
            raise TopicFull(topic.full, topic.full_detail)
        now_us = self._wall_us()
        ways: dict[tuple[Target, ...], list[int]] = {}
        for index, item in enumerate(items):
            ways.setdefault(way_of(topic, item, now_us, NAMES_KEPT_S), []).append(index)
        course = _OutboxPut(topic, items)
        results = await asyncio.gather(
            *(self._go(way, indices, course) for way, indices in ways.items()),
            return_exceptions=True,
        )
        for result in results:
            if result is not None:
                raise result
        return [course.done[index] for index in range(len(items))]

    async def _go(self, way: Sequence[Target], indices: Sequence[int], course: _OutboxPut) -> None:
        for chunk in chunks(indices, course.message):
            await self._writer.put(way, chunk, course)


class _OutboxPut:
    """The places of the items of one call, by their indices."""

    def __init__(self, topic: Topic, items: Sequence[Item]) -> None:
        self.done: dict[int, StoredPosition] = {}
        self._topic = topic
        self._items = items

    def message(self, index: int) -> Message:
        return self._items[index].message

    def route(self, index: int) -> str:
        return route_of(self._items[index])

    def batch(self, indices: Sequence[int]) -> Batch:
        names = [self._name(at, self._items[index]) for at, index in enumerate(indices)]
        return Batch([self.message(index) for index in indices], names)

    def stored(self, target: Target, indices: Sequence[int], base_offset: int) -> None:
        for offset, index in enumerate(indices, base_offset):
            self.done[index] = placed(target.queue, offset)

    async def known(
        self, target: Target, indices: Sequence[int], known: dict[int, Known]
    ) -> list[int]:
        for at, first in known.items():
            self.done[indices[at]] = placed_before(first)
        return [index for at, index in enumerate(indices) if at not in known]

    def _name(self, at: int, item: Item) -> Name:
        content = self._topic.uid + item.name
        hashed = blake2b(content, digest_size=16, person=b"pb-outbox").digest()
        return Name(at, hashed, int.from_bytes(hashed[:8], "little"))
