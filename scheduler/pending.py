"""Keeps staged messages that are due soon in memory: a heap for each group.

Every group has its own log time, so its own heap. A message's time may change while it is in the
heap: `StagedQueue.due` has the present one and the ticket of its place in the heap, and earlier
places are passed over when they reach the top. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from metadata.delivery.due import Progress, QueueKey
from store_nodes.queue_id import QueueId


class StagedQueue:
    """One queue; messages below `listed_to` are in memory, in the due index, or done with."""

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
        """The highest stage end that the store reported."""
        self.changes_seen = progress.changes
        self.listed_end = progress.projected_to
        """The stage end at which the last listing began."""
        self.due: dict[int, tuple[int, int]] = {}
        """Messages in memory as (due µs, ticket), until their release is known."""
        self.ready: deque[int] = deque()
        """Messages that are due, in order, and not being released."""
        self.listing = False
        self.busy = False
        self.released_s = 0.0
        """Time of the loop's clock at which its last release began."""
        self.gone = False

    @property
    def behind(self) -> bool:
        """Whether the queue has staged messages or changes that are not listed yet."""
        return self.end_seen > self.listed_end or self.changes_seen > self.changes


class DueHeap:
    """The messages of one group that are not due yet."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, StagedQueue]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, queue: StagedQueue, number: int, due_us: int, *, not_before_us: int = 0) -> bool:
        """Add a message; return whether it is now the first to be due.

        Try it no sooner than `not_before_us`.
        """
        self._tickets += 1
        queue.due[number] = (due_us, self._tickets)
        at_us = max(due_us, not_before_us)
        heappush(self._heap, (at_us, number, self._tickets, queue))
        return self._heap[0][0] == at_us

    def next_us(self) -> int | None:
        """Return the time at which the first message is due; it may have changed since."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_us: int) -> list[StagedQueue]:
        """Move the messages that are due by now to their queue's `ready`; return those queues."""
        touched: dict[StagedQueue, None] = {}
        while self._heap and self._heap[0][0] <= now_us:
            _, number, ticket, queue = heappop(self._heap)
            known = queue.due.get(number)
            if known is not None and known[1] == ticket and not queue.gone:
                queue.ready.append(number)
                touched[queue] = None
        return list(touched)

    def times(self) -> list[int]:
        """Return the due times of its messages, in no order."""
        return [
            known[0]
            for _, number, ticket, queue in self._heap
            if (known := queue.due.get(number)) is not None and known[1] == ticket
        ]

    def drop_after(self, until_us: int) -> int:
        """Forget the messages that are due later; return their number."""
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
