"""Offsets of one lane of a partition over all its generations: where it begins and ends, and what
is at a time.

A generation whose queue is gone was trimmed whole. Raises StoreError where a group does not answer.
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.types import Partition, SealedPartition, Topic
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId


class Bounds(NamedTuple):
    """The first offset that is stored, and one past the last."""

    first: int
    end: int

    def clamp(self, offset: int) -> int:
        return min(max(offset, self.first), self.end)


async def bounds(store: StoreClient, topic: Topic, number: int, lane: int = 0) -> Bounds:
    """Return bounds; all messages that were published before the call are below `end`."""
    *sealed, present = topic.generations(number, lane)
    found = await store.offsets(present.group, queue_of(topic, present))
    for each in sealed:
        first = await _first_of_sealed(store, topic, each)
        if first is not None:
            return Bounds(first, found.end)
    return Bounds(found.first, found.end)


async def at_time(store: StoreClient, topic: Topic, number: int, lane: int, time_us: int) -> int:
    """Return the first stored offset that is not older, else the end."""
    *sealed, present = topic.generations(number, lane)
    for each in sealed:
        if isinstance(each, SealedPartition) and each.base < each.sealed_at:
            try:
                found = await store.offset_at(each.group, queue_of(topic, each), time_us)
            except QueueNotFound:
                continue
            if found < each.sealed_at:
                return found
    return await store.offset_at(present.group, queue_of(topic, present), time_us)


def holder(topic: Topic, number: int, lane: int, offset: int) -> Partition | SealedPartition:
    """Return the generation that holds the offset; for an offset below all of them, the oldest."""
    generations = topic.generations(number, lane)
    holding = [each for each in generations if each.base <= offset]
    return holding[-1] if holding else generations[0]


def queue_of(topic: Topic, generation: Partition | SealedPartition) -> QueueId:
    return QueueId(topic.uid, generation.number, generation.lane, generation.generation)


async def _first_of_sealed(
    store: StoreClient, topic: Topic, sealed: Partition | SealedPartition
) -> int | None:
    """Return the first offset of a sealed queue; None if nothing of it is left."""
    assert isinstance(sealed, SealedPartition)
    try:
        found = await store.offsets(sealed.group, queue_of(topic, sealed))
    except QueueNotFound:
        return None
    return found.first if found.first < sealed.sealed_at else None
