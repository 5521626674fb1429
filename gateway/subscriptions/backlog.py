"""What subscriptions still have to do, as any process can tell: cursors as committed, queue ends.

What is acked and not flushed yet counts as backlog, and so does what a filter has not looked at:
a count made so is never too low for what was published before it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from edge.problem import FieldError, Problem
from metadata.types import CursorState, Topic
from store_nodes.queue_id import QueueId

ASK_TIMEOUT_S = 5.0
ASK_AT_ONCE = 64
NAMED = 20


class Ends(Protocol):
    """What the store answers about a queue."""

    @property
    def end(self) -> int: ...


class EndStore(Protocol):
    """The part of `store_nodes.client.StoreClient` that counting needs; raises StoreError."""

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5) -> Ends: ...


async def backlogs(store: EndStore, topic: Topic, cursors: Iterable[CursorState]) -> Counter[bytes]:
    """Unsettled messages of those cursors, by subscription uid. Raises StoreError."""
    gate = asyncio.Semaphore(ASK_AT_ONCE)

    async def ends_of(number: int, lane: int) -> int:
        last = topic.generations(number, lane)[-1]
        queue = QueueId(topic.uid, number, lane, last.generation)
        async with gate:
            return (await store.offsets(last.group, queue, timeout_s=ASK_TIMEOUT_S)).end

    rows = list(cursors)
    present = {(each.number, each.lane) for each in topic.partitions}
    places = sorted({(row.key.partition, row.key.lane) for row in rows} & present)
    found = await asyncio.gather(*(ends_of(*place) for place in places))
    ends = dict(zip(places, found, strict=True))
    left: Counter[bytes] = Counter()
    for row in rows:
        end = max(ends.get((row.key.partition, row.key.lane), 0), row.read_to)
        left[row.key.subscription_uid] += end - row.read_to + row.pending() + row.exceptions
    return left


def not_empty(kind: str, name: str, left: dict[str, int]) -> Problem:
    """409: what would be lost, by subscription name."""
    worst = sorted(left.items(), key=lambda each: (-each[1], each[0]))[:NAMED]
    counts = ", ".join(f"{subscription!r} ({count})" for subscription, count in worst)
    more = f" and {len(left) - len(worst)} more" if len(left) > len(worst) else ""
    return Problem(
        409,
        "backlog-not-empty",
        "There are undelivered messages",
        f"Deleting the {kind} {name!r} loses messages that are not acked: {counts}{more}. "
        "Give force=true to delete it all the same.",
        errors=[FieldError(subscription, f"{count} messages") for subscription, count in worst],
    )
