"""All that a group has and had: its queues, what they keep below where they begin, and the names
of those that were deleted."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from store_nodes.client import QueueInfo, SnapshotImage
from store_nodes.machine import snapshot
from store_nodes.machine.queues import Queue

BARRIER = "era"
"""A counter that is read first: nodes of 0.2.0 do not confirm that they lead when asked for a
snapshot, and who answers this has applied all that was decided before."""


class CountedQueue(NamedTuple):
    """`kept`: offsets below the first one that a truncation left."""

    info: QueueInfo
    kept: tuple[int, ...]


class Census(NamedTuple):
    """`deleted`: packed ids; they are never used again."""

    queues: list[CountedQueue]
    deleted: frozenset[bytes]


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that it uses."""

    async def counter(self, group: int, name: str, *, timeout_s: float = 5) -> int: ...

    async def snapshot(
        self, group: int, node: int | None = None, *, timeout_s: float = 60
    ) -> SnapshotImage: ...


async def census(store: Store, group: int) -> Census:
    """Of the group's whole machine, so it costs a copy of that; raises StoreError."""
    await store.counter(group, BARRIER)
    image = await store.snapshot(group)
    state = await asyncio.to_thread(snapshot.decode, image.raw)
    counted = [CountedQueue(_info(queue), queue.kept) for queue in state.queues]
    return Census(counted, frozenset(state.tombstones))


def _info(queue: Queue) -> QueueInfo:
    return QueueInfo(
        queue.queue,
        queue.base,
        queue.first,
        queue.end,
        queue.sealed,
        queue.meta,
        queue.successors,
        queue.stage_end,
    )
