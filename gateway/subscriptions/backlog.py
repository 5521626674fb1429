"""The backlogs of subscriptions, as any process can tell: from committed cursors and the ends of
queues.

A message that is acked and not flushed yet counts as backlog, and so does one that no filter has
looked at: the count is never too low for messages published before it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable

from metadata.types import CursorState, Topic
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId

ASK_TIMEOUT_S = 5.0
ASK_AT_ONCE = 64


async def ends(
    store: StoreClient, topic: Topic, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Return the ends of the queues of these partitions and lanes. Raises StoreError."""
    at_once = asyncio.Semaphore(ASK_AT_ONCE)

    async def ends_of(number: int, lane: int) -> int:
        last = topic.generations(number, lane)[-1]
        queue = QueueId(topic.uid, number, lane, last.generation)
        async with at_once:
            return (await store.offsets(last.group, queue, timeout_s=ASK_TIMEOUT_S)).end

    found = await asyncio.gather(*(ends_of(*place) for place in places))
    return dict(zip(places, found, strict=True))


async def backlogs(
    store: StoreClient, topic: Topic, cursors: Iterable[CursorState]
) -> Counter[bytes]:
    """Return the unsettled messages of those cursors, by subscription uid. Raises StoreError."""
    rows = list(cursors)
    present = {(each.number, each.lane) for each in topic.partitions}
    found = await ends(store, topic, {(row.key.partition, row.key.lane) for row in rows} & present)
    left: Counter[bytes] = Counter()
    for row in rows:
        end = max(found.get((row.key.partition, row.key.lane), 0), row.read_to)
        left[row.key.subscription_uid] += end - row.read_to + row.pending() + row.exceptions
    return left
