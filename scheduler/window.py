"""Delayed messages by their due times: those due soon in memory, the others in Postgres.

Memory has all messages that are due by `until_us` and no others. Every message is in the projection
until it is written, and the next rows are loaded long before they are due. When more messages are
due soon than memory should hold, the window is narrowed and the next ones are loaded as these
leave.
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.delivery.due import DueRepository, QueueKey
from metadata.locks.locks import Lock
from scheduler import metrics
from scheduler.pending import DueHeap, StagedQueue
from scheduler.projection import Projection
from store_nodes.client import LogClock

SOON_US = 1_000_000
"""Time within which due messages are kept in memory, however many there are."""


class Window:
    """The messages in memory.

    `find` returns the queue of a key, if there is one; `wake` is called when a group's first
    message changes; `clock` returns a group's log time.
    """

    def __init__(
        self,
        repository: DueRepository,
        *,
        length_s: float,
        max_pending: int,
        find: Callable[[QueueKey], StagedQueue | None],
        wake: Callable[[int], None],
        clock: Callable[[int], LogClock],
    ) -> None:
        self._repository = repository
        self._length_us = int(length_s * 1e6)
        self._max_pending = max_pending
        self._find = find
        self._wake = wake
        self._clock = clock
        self._heaps: dict[int, DueHeap] = {}
        self._held = 0
        self._narrowed = False
        self._crowded_at = 2 * max_pending
        self.projection = Projection(repository)
        self.until_us = 0

    def heap(self, group: int) -> DueHeap:
        """Return the messages of one group."""
        heap = self._heaps.get(group)
        if heap is None:
            heap = self._heaps[group] = DueHeap()
        return heap

    @property
    def held(self) -> int:
        """Number of messages in memory."""
        return self._held

    def learned(self, queue: StagedQueue, number: int, due_us: int, *, fresh: bool) -> None:
        """Learn from the store that a message is staged, with its due time; `fresh` the first
        time.
        """
        self.projection.put(queue.key, number, due_us, fresh=fresh)
        self._keep(queue, number, due_us)

    def removed(self, queue: StagedQueue, number: int) -> None:
        """Learn that a message is staged no more."""
        if queue.due.pop(number, None) is not None:
            self._holds(-1)
            self.projection.gone(queue.key, number)

    def forget(self, queue: StagedQueue) -> None:
        """Learn that a queue is gone."""
        queue.gone = True
        self._holds(-len(queue.due))
        queue.due.clear()
        queue.ready.clear()
        self.projection.drop(queue.key)

    def wants_more(self, now_us: int) -> bool:
        """Return whether to load: memory has room, and half of the window is over or was given
        up.
        """
        room = self._held < max(1, self._max_pending // 2)
        return room and (self._narrowed or self.until_us - now_us < self._length_us // 2)

    async def load(self, now_us: int, lock: Lock) -> None:
        """Load the next rows.

        Raises MetadataError.

        Waiting changes are written first, so that none is missed. If a message has changed since
        its row was written, the row is ignored.
        """
        until_us = now_us + self._length_us
        # Messages that the store reports from here on and that are due by then are kept; earlier
        # reports are written.
        before_us, self.until_us = self.until_us, max(self.until_us, until_us)
        rows = None
        try:
            await self.projection.write(lock)
            async with self.projection.lock:
                rows = await self._repository.due_until(until_us, self._max_pending)
                for row in rows:
                    queue = self._find(row.queue)
                    if queue is None or self.projection.has(row.queue, row.stage_number):
                        continue
                    if row.stage_number not in queue.due:
                        self._keep(queue, row.stage_number, row.due_us)
        finally:
            if rows is None:
                self.until_us = before_us
        self._crowded_at = 2 * self._max_pending
        self._narrowed = len(rows) == self._max_pending
        if self._narrowed:
            self._narrow(rows[-1].due_us)

    def _keep(self, queue: StagedQueue, number: int, due_us: int) -> None:
        if due_us > self.until_us:
            if queue.due.pop(number, None) is not None:
                self._holds(-1)
            return
        if number not in queue.due:
            self._holds(1)
        if self.heap(queue.group).add(queue, number, due_us):
            self._wake(queue.group)
        if self._held >= self._crowded_at:
            times = sorted(due_us for heap in self._heaps.values() for due_us in heap.times())
            soon_us = self._clock(queue.group).now_us() + SOON_US
            if times:
                self._narrow(max(soon_us, times[min(len(times), self._max_pending) - 1]))
            # A window that cannot be narrowed is not tried again for each message.
            self._crowded_at = 2 * max(self._held, self._max_pending)

    def _narrow(self, until_us: int) -> None:
        """Reduce the window; the index has what leaves memory, or will with the next write."""
        if until_us < self.until_us:
            self.until_us = until_us
            self._narrowed = True
            self._holds(-sum(heap.drop_after(until_us) for heap in self._heaps.values()))

    def _holds(self, more: int) -> None:
        self._held += more
        metrics.pending.set(self._held)
