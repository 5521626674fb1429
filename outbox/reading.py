"""Messages by their offsets, read from the store: what is published once more, and shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from metadata.types import Partition, SealedPartition, Topic
from store_nodes.errors import QueueNotFound, QueueTruncated, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, peek

FETCH_BYTES = 1024 * 1024


class Entry(Protocol):
    """One whole stored batch. `indices` are those of its messages that are here, None: all."""

    @property
    def base_offset(self) -> int: ...
    @property
    def log_time_us(self) -> int: ...
    @property
    def stage(self) -> int | None: ...
    @property
    def indices(self) -> tuple[int, ...] | None: ...
    @property
    def batch(self) -> bytes | memoryview: ...


class Fetched(Protocol):
    """What a replica has from an offset on."""

    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def first_offset(self) -> int: ...


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that it uses."""

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        min_end: int | None = None,
    ) -> Fetched: ...


class Stored(NamedTuple):
    """A message as it is stored. `stage`: the generation and number it was staged under, if so."""

    message: Message
    log_time_us: int
    stage: tuple[int, int] | None


async def read(
    store: Store, topic: Topic, partition: int, lane: int, offsets: Iterable[int]
) -> dict[int, Stored]:
    """Those that are still stored. Raises StoreError, BadBatch."""
    found: dict[int, Stored] = {}
    wanted = sorted(set(offsets))
    for offset in wanted:
        generation = _generation_of(topic, partition, lane, offset)
        if offset not in found and generation is not None:
            await _fetch(store, topic, generation, offset, wanted, found)
    return found


def _generation_of(
    topic: Topic, partition: int, lane: int, offset: int
) -> Partition | SealedPartition | None:
    holding = [each for each in topic.generations(partition, lane) if each.base <= offset]
    return holding[-1] if holding else None


async def _fetch(
    store: Store,
    topic: Topic,
    of: Partition | SealedPartition,
    offset: int,
    wanted: Sequence[int],
    found: dict[int, Stored],
) -> None:
    """`offset`, and what else is wanted of the batches that come with it."""
    queue = QueueId(topic.uid, of.number, of.lane, of.generation)
    try:
        fetched = await store.fetch(of.group, queue, offset, FETCH_BYTES, min_end=offset + 1)
    except (QueueTruncated, QueueNotFound):
        return
    for entry in fetched.entries:
        base = entry.base_offset
        count = peek(entry.batch)[0] if entry.indices is None else len(entry.indices)
        here = wanted[bisect_left(wanted, base) : bisect_left(wanted, base + count)]
        if not here:
            continue  # decoding it would cost more than all else
        messages = decode(entry.batch)
        for at in here:
            index = at - base if entry.indices is None else entry.indices[at - base]
            stage = None if entry.stage is None else (of.generation, entry.stage + index)
            found[at] = Stored(messages[index], entry.log_time_us, stage)
        if base + count > wanted[-1]:
            break
    if offset not in found and fetched.first_offset <= offset and not fetched.entries:
        raise Unavailable(f"no replica has offset {offset} of {queue} now")
