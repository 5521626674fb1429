"""The queues of a group: those that exist, with the offsets that truncations kept, and deleted
ones.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from store_nodes.client import QueueInfo, StoreClient
from store_nodes.machine import snapshot
from store_nodes.machine.queues import Queue

BARRIER = "era"
"""A counter that is read first.

Nodes of 0.2.0 do not confirm that they lead when asked for a snapshot. A node that answers this
read has applied everything that was decided before.
"""


class CountedQueue(NamedTuple):
    """A queue of a group; `kept` are the offsets below the first one that a truncation left."""

    info: QueueInfo
    kept: tuple[int, ...]


class QueueInventory(NamedTuple):
    """The queues of a group; `deleted` are packed ids, which are never used again."""

    queues: list[CountedQueue]
    deleted: frozenset[bytes]


async def queue_inventory(store: StoreClient, group: int) -> QueueInventory:
    """Return the queues of a group, from its whole machine, which is copied; raises StoreError."""
    await store.counter(group, BARRIER)
    image = await store.snapshot(group)
    state = await asyncio.to_thread(snapshot.decode, image.raw)
    counted = [CountedQueue(_info(queue), queue.kept) for queue in state.queues]
    return QueueInventory(counted, frozenset(state.tombstones))


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
