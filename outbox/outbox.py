"""Appends messages of the platform to topics, each once.

A message has a name that its cause gives it (a dead letter's is where the message came from, a
schedule's is the time of the run). The log remembers names for `WINDOW_S`, so whoever does not know
whether a message was stored (a crash, an unanswered append) appends it again under the same name
and is told where it is. What must be durable before the cause is written off is therefore this
alone: the append's answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

from metadata.types import Topic
from outbox.appenders import Appenders
from outbox.item import Item, Placed, placed, placed_before
from outbox.routing import Target, successor_of, way_of
from store_nodes.client import Receipt
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import DedupKnown, QueueNotFound, QueueSealed, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import MAX_BATCH_MESSAGES, Message, encode

WINDOW_S = 86_400
"""How long a cause may take from the append to writing down that it was done."""
MAX_TRIES = 8
"""Of one append: names it knows are taken out, queues that are sealed are left."""
BATCH_BYTES = 1024 * 1024
MESSAGE_OVERHEAD_BYTES = 64


class TopicFull(Exception):
    """The topic takes no messages now; `kind` is `topic-full` or `tenant-full`, the text says what
    makes room."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail or kind)
        self.kind = kind


class Appender(Protocol):
    """Ordered appends to one queue."""

    @property
    def idle(self) -> bool: ...
    def append(
        self, batch: bytes, count: int, *, timeout_s: float, dedup: bytes, dedup_window_s: int
    ) -> Awaitable[Receipt]:
        """Raises DedupKnown and other StoreErrors."""
        ...


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that it uses."""

    def appender(self, group: int, queue: QueueId) -> Appender: ...


class Outbox:
    """One per process; use it on one event loop."""

    def __init__(
        self,
        store: Store,
        timeout_s: float = 5.0,
        *,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._wall_us = wall_us
        self._appenders: Appenders[Appender] = Appenders(store.appender)

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[Placed]:
        """Where each is, in the order given; those of one partition are stored in that order.

        Raises TopicFull, and StoreError: then some may be stored, and repeating all of it is safe.
        """
        if topic.full is not None:
            raise TopicFull(topic.full, topic.full_detail)
        now_us = self._wall_us()
        ways: dict[tuple[Target, ...], list[int]] = {}
        for index, item in enumerate(items):
            ways.setdefault(way_of(topic, item, now_us, WINDOW_S), []).append(index)
        done: dict[int, Placed] = {}
        results = await asyncio.gather(
            *(self._go(topic, way, items, indices, done) for way, indices in ways.items()),
            return_exceptions=True,
        )
        for result in results:
            if result is not None:
                raise result
        return [done[index] for index in range(len(items))]

    async def _go(
        self,
        topic: Topic,
        way: tuple[Target, ...],
        items: Sequence[Item],
        indices: Sequence[int],
        done: dict[int, Placed],
    ) -> None:
        for chunk in _chunks(items, indices):
            left = chunk
            for target in way[:-1]:
                left = await self._ask(topic, target, items, left, done)
            await self._append(topic, way[-1], items, left, done, MAX_TRIES)

    async def _ask(
        self,
        topic: Topic,
        target: Target,
        items: Sequence[Item],
        indices: list[int],
        done: dict[int, Placed],
    ) -> list[int]:
        """Those that a sealed queue's group does not know."""
        left = indices
        while left:
            try:
                receipt = await self._send(topic, target, items, left)
            except DedupKnown as error:
                left = _without_known(left, error, done)
            except (QueueSealed, QueueNotFound):
                return left
            else:  # the seal was taken back: there it is
                _note(target, receipt, left, done)
                return []
        return left

    async def _append(
        self,
        topic: Topic,
        target: Target,
        items: Sequence[Item],
        indices: list[int],
        done: dict[int, Placed],
        tries: int,
    ) -> None:
        left = indices
        while left:
            if not tries:
                raise Unavailable(f"appends to {target.queue} came to no end")
            tries -= 1
            try:
                receipt = await self._send(topic, target, items, left)
            except DedupKnown as error:
                left = _without_known(left, error, done)
            except QueueSealed as sealed:
                self._appenders.forget(target)
                if not sealed.successors:
                    raise
                onward: dict[Target, list[int]] = {}
                for index in left:
                    further = successor_of(items[index], target.queue, sealed.successors)
                    onward.setdefault(further, []).append(index)
                for further, some in onward.items():
                    await self._append(topic, further, items, some, done, tries)
                return
            else:
                _note(target, receipt, left, done)
                return

    async def _send(
        self, topic: Topic, target: Target, items: Sequence[Item], indices: Sequence[int]
    ) -> Receipt:
        messages = [items[index].message for index in indices]
        return await self._appenders.of(target).append(
            encode(messages, self._wall_us()),
            len(messages),
            timeout_s=self._timeout_s,
            dedup=b"".join(_entry(topic, at, items[index]) for at, index in enumerate(indices)),
            dedup_window_s=WINDOW_S,
        )


def _chunks(items: Sequence[Item], indices: Sequence[int]) -> Iterator[list[int]]:
    """In appends of a bounded size; what is larger alone goes alone."""
    chunk: list[int] = []
    total_bytes = 0
    for index in indices:
        size = size_bytes(items[index].message)
        if chunk and (len(chunk) >= MAX_BATCH_MESSAGES or total_bytes + size > BATCH_BYTES):
            yield chunk
            chunk, total_bytes = [], 0
        chunk.append(index)
        total_bytes += size
    if chunk:
        yield chunk


def size_bytes(message: Message) -> int:
    """About what it takes in an append."""
    attributes = message.attributes or {}
    text = sum(len(name) + len(value) for name, value in attributes.items())
    return len(message.data) + text + MESSAGE_OVERHEAD_BYTES


def _entry(topic: Topic, at: int, item: Item) -> bytes:
    hashed = blake2b(topic.uid + item.name, digest_size=16, person=b"pb-outbox").digest()
    return DEDUP_ENTRY.pack(at, hashed, int.from_bytes(hashed[:8], "little"))


def _without_known(left: Sequence[int], error: DedupKnown, done: dict[int, Placed]) -> list[int]:
    for at, known in error.known.items():
        done[left[at]] = placed_before(known)
    return [index for at, index in enumerate(left) if at not in error.known]


def _note(
    target: Target, receipt: Receipt, indices: Sequence[int], done: dict[int, Placed]
) -> None:
    for at, index in enumerate(indices):
        done[index] = placed(target.queue, receipt.base_offset + at)
