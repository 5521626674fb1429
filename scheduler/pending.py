"""Staged messages that come due soon, in memory: a heap per group, and what is known of each queue.

Every group has its own log time, so its own heap. A message's time may change while it is in the
heap: `StagedQueue.due` has the present one and the ticket of its place in the heap, and earlier
places are passed over when they surface. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from metadata.delivery.due import Progress, QueueKey
from store_nodes.queue_id import QueueId


class StagedQueue:
    """One queue. Numbers below `listed_to` are known: in memory, in the due index, or done with."""

    __slots__ = (
        "busy",
        "changes",
        "changes_seen",
        "due",
        "end_seen",
        "gone",
        "group",
        "id",
        "key",
        "listed_end",
        "listed_to",
        "listing",
        "ready",
        "released_s",
    )

    def __init__(self, key: QueueKey, group: int, progress: Progress) -> None:
        self.key = key
        self.id = QueueId(key.topic_uid, key.partition, key.lane, key.generation)
        self.group = group
        self.listed_to = progress.projected_to
        self.changes = progress.changes
        self.end_seen = 0
        """The highest stage end that the store told us."""
        self.changes_seen = progress.changes
        self.listed_end = progress.projected_to
        """The stage end that the last listing began from."""
        self.due: dict[int, tuple[int, int]] = {}
        """Messages in memory as (due µs, ticket), until what became of them is known."""
        self.ready: deque[int] = deque()
        """Those of them that are due, in order, and not being released."""
        self.listing = False
        self.busy = False
        self.released_s = 0.0
        """When its last release began, by the loop's clock."""
        self.gone = False

    @property
    def behind(self) -> bool:
        """There is something to list."""
        return self.end_seen > self.listed_end or self.changes_seen > self.changes


class DueHeap:
    """The messages of one group that are not due yet."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, StagedQueue]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, queue: StagedQueue, number: int, due_us: int, *, not_before_us: int = 0) -> bool:
        """Whether it is now the first to come due. `not_before_us`: try no sooner."""
        self._tickets += 1
        queue.due[number] = (due_us, self._tickets)
        at_us = max(due_us, not_before_us)
        heappush(self._heap, (at_us, number, self._tickets, queue))
        return self._heap[0][0] == at_us

    def next_us(self) -> int | None:
        """When the first comes due; it may have moved since."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_us: int) -> list[StagedQueue]:
        """Moves what is due by now to the `ready` of its queue; the queues that got some."""
        touched: dict[StagedQueue, None] = {}
        while self._heap and self._heap[0][0] <= now_us:
            _, number, ticket, queue = heappop(self._heap)
            known = queue.due.get(number)
            if known is not None and known[1] == ticket and not queue.gone:
                queue.ready.append(number)
                touched[queue] = None
        return list(touched)

    def times(self) -> list[int]:
        """When its messages are due, in no order."""
        return [
            known[0]
            for _, number, ticket, queue in self._heap
            if (known := queue.due.get(number)) is not None and known[1] == ticket
        ]

    def drop_after(self, until_us: int) -> int:
        """Forgets what is due later; how many that were."""
        kept: list[tuple[int, int, int, StagedQueue]] = []
        dropped = 0
        for place in self._heap:
            _, number, ticket, queue = place
            known = queue.due.get(number)
            if known is None or known[1] != ticket:
                continue
            if known[0] <= until_us:
                kept.append(place)
            else:
                del queue.due[number]
                dropped += 1
        heapify(kept)
        self._heap = kept
        return dropped
