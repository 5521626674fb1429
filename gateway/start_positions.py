"""Where the cursors of a new subscription begin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Literal, Protocol

import msgspec

from edge.problem import FieldError
from gateway.placement import queue_of
from metadata.types import Partition, SealedPartition, Topic
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId

MAX_OFFSET = 2**53


class Offsets(Protocol):
    """What the store answers about a queue: `first` kept and `end`, one past the last."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...


class OffsetStore(Protocol):
    """The part of `store_nodes.client.StoreClient` that finding a start needs."""

    async def offsets(self, group: int, queue: QueueId) -> Offsets:
        """Confirmed with a quorum: all that was answered before the call is counted."""
        ...

    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int: ...


class StartAt(msgspec.Struct, forbid_unknown_fields=True):
    """A start position other than the two named ones: exactly one of its fields."""

    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)] | None = None


Start = Literal["latest", "earliest"] | StartAt


def start_errors(start: Start) -> list[FieldError]:
    if isinstance(start, StartAt) and (start.time is None) == (start.offset is None):
        return [FieldError("start", "either time or offset")]
    return []


def start_spec(start: Start) -> str | Mapping[str, object]:
    """As the subscription keeps it."""
    if isinstance(start, str):
        return start
    if start.time is not None:
        return {"time": start.time.isoformat()}
    return {"offset": start.offset}


class StartPositions:
    """Finds them in the store; raises StoreError."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def floors(self, topic: Topic, start: Start) -> dict[tuple[int, int], int]:
        """Where the cursor of each partition and lane begins."""
        async with asyncio.TaskGroup() as tasks:
            floors = {
                (partition.number, partition.lane): tasks.create_task(
                    self._floor(topic, partition, start)
                )
                for partition in topic.partitions
            }
        return {place: task.result() for place, task in floors.items()}

    async def _floor(self, topic: Topic, partition: Partition, start: str | StartAt) -> int:
        if isinstance(start, StartAt) and start.time is not None:
            return await self._at(topic, partition, start.time)
        offsets = await self._store.offsets(partition.group, queue_of(topic.uid, partition))
        if start == "latest":
            return offsets.end
        wanted = start.offset if isinstance(start, StartAt) and start.offset is not None else 0
        if wanted < offsets.first:
            wanted = max(wanted, await self._first(topic, partition, offsets.first))
        return min(wanted, offsets.end)

    async def _first(self, topic: Topic, partition: Partition, default: int) -> int:
        """The first offset kept, of whichever generation has it."""
        for sealed in topic.generations(partition.number, partition.lane):
            if isinstance(sealed, SealedPartition):
                with suppress(QueueNotFound):  # all of it was trimmed
                    found = await self._store.offsets(sealed.group, queue_of(topic.uid, sealed))
                    if found.first < sealed.sealed_at:
                        return found.first
        return default

    async def _at(self, topic: Topic, partition: Partition, time: datetime) -> int:
        """The first offset that is not older."""
        time_us = max(0, int(time.timestamp() * 1_000_000))
        for sealed in topic.generations(partition.number, partition.lane):
            if isinstance(sealed, SealedPartition):
                with suppress(QueueNotFound):
                    queue = queue_of(topic.uid, sealed)
                    found = await self._store.offset_at(sealed.group, queue, time_us)
                    if found < sealed.sealed_at:
                        return found
        return await self._store.offset_at(partition.group, queue_of(topic.uid, partition), time_us)
