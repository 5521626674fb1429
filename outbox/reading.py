"""Reads messages by their offsets from the store, to publish them again or to show them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from metadata.types import Partition, SealedPartition, Topic
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, QueueTruncated, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, peek

FETCH_BYTES = 1024 * 1024


class Stored(NamedTuple):
    """A stored message; `stage` is the generation and number under which it was staged, if it
    was.
    """

    message: Message
    log_time_us: int
    stage: tuple[int, int] | None


async def read(
    store: StoreClient, topic: Topic, partition: int, lane: int, offsets: Iterable[int]
) -> dict[int, Stored]:
    """Return the messages that are still stored, by offset. Raises StoreError, BadBatch."""
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
    store: StoreClient,
    topic: Topic,
    of: Partition | SealedPartition,
    offset: int,
    wanted: Sequence[int],
    found: dict[int, Stored],
) -> None:
    """Fetch `offset`, and other wanted offsets in the batches that come with it."""
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
            continue  # decoding the batch would cost more than all the rest
        messages = decode(entry.batch)
        for at in here:
            index = at - base if entry.indices is None else entry.indices[at - base]
            stage = None if entry.stage is None else (of.generation, entry.stage + index)
            found[at] = Stored(messages[index], entry.log_time_us, stage)
        if base + count > wanted[-1]:
            break
    if offset not in found and fetched.first_offset <= offset and not fetched.entries:
        raise Unavailable(f"no replica has offset {offset} of {queue} now")
