"""Makes delayed messages readable when they are due.

Messages that are due soon are kept in memory and released from there. Postgres keeps the rest, so
that the next scheduler need not list everything. The store holds the messages themselves; the rows
in Postgres are an index, written after the fact.

    watch says that a queue staged more, or changed some   → listing.py: listed from the last place
    listed                                                 → window.py: into memory if it is due
                                                             soon; written to Postgres, behind
    due                                                    → releasing.py: released with the others
                                                             that are due of its queue
    half a window later                                    → the next rows come into memory
    the queue was sealed                                   → forwarding.py: copied to its successor
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from metadata.delivery.due import DueRepository, Progress, QueueKey
from metadata.delivery.forwarded import ForwardedRepository
from metadata.locks.locks import Lock
from scheduler.forwarding import Forwarding
from scheduler.listing import Listing
from scheduler.pending import StagedQueue
from scheduler.releasing import Releasing
from scheduler.settings import SchedulerSettings
from scheduler.term import Term, put_off
from scheduler.topic_map import Queues
from scheduler.window import Window
from store_nodes.client import QueueOffsets, StoreClient, Watch
from store_nodes.queue_id import QueueId

SWEEP_EVERY_S = 60.0
SWEEP_PAUSE_S = 0.05
ORPHAN_AFTER_US = 60_000_000


class DueLoop:
    """Releases delayed messages in one term of leadership; `lock` gives the lock as last
    renewed.
    """

    def __init__(
        self,
        store: StoreClient,
        due: DueRepository,
        forwarded: ForwardedRepository,
        settings: SchedulerSettings,
        term: Term,
        lock: Callable[[], Lock],
    ) -> None:
        self._store = store
        self._due = due
        self._forwarded = forwarded
        self._settings = settings
        self._term = term
        self._lock = lock
        self._progress: dict[QueueKey, Progress] = {}
        self._queues: dict[bytes, StagedQueue] = {}
        self._watches: dict[int, Watch] = {}
        timeout_s = settings.release_timeout_s
        self.window = Window(
            due,
            length_s=settings.window_s,
            max_pending=settings.max_pending,
            find=self._find,
            wake=lambda group: self._releasing.wake(group),
            clock=store.clock,
        )
        self._listing = Listing(store, self.window, term, timeout_s)
        forwarding = Forwarding(store, forwarded, timeout_s=timeout_s)
        self._releasing = Releasing(store, self.window, forwarding, term, timeout_s)

    async def begin(self, queues: Queues) -> None:
        """Continue where the last scheduler was. Raises MetadataError."""
        self._progress = await self._due.progress()
        for raw, (key, group) in queues.items():
            self._add(raw, key, group)
        await self.window.load(self._now_us(), self._lock())
        self.owned(queues)
        self._term.spawn(self._write_behind())
        self._term.spawn(self._sweep())
        self._term.spawn(self._listing.recheck(self._queues.values()))

    def owned(self, queues: Queues) -> None:
        """Take the present queues; everything about queues that are gone is forgotten."""
        for raw in [raw for raw in self._queues if raw not in queues]:
            queue = self._queues.pop(raw)
            self.window.forget(queue)
            self._watches[queue.group].remove(queue.id)
        for raw, (key, group) in queues.items():
            if raw not in self._queues:
                self._add(raw, key, group)
            if group not in self._watches:
                self._watches[group] = self._store.watch(group, self._told)
                self._releasing.follow(group)
            self._watches[group].add(self._queues[raw].id)

    def close(self) -> None:
        """Close the watches, after the end of the term."""
        for watch in self._watches.values():
            watch.close()

    def _add(self, raw: bytes, key: QueueKey, group: int) -> None:
        self._queues[raw] = StagedQueue(key, group, self._progress.get(key, Progress()))

    def _find(self, key: QueueKey) -> StagedQueue | None:
        return self._queues.get(QueueId(*key[1:]).pack())

    def _told(self, states: Sequence[QueueOffsets]) -> None:
        """Pass changed queue states of a watch to the listing."""
        for state in states:
            queue = self._queues.get(state.queue)
            if queue is not None:
                self._listing.told(queue, state)

    def _now_us(self) -> int:
        """Return some group's log time: they differ by little, and the window is long."""
        return self._store.clock(next(iter(self._watches), 0)).now_us()

    async def _write_behind(self) -> None:
        while True:
            await asyncio.sleep(self._settings.write_every_s)
            await put_off("due index", self.window.projection.write(self._lock()))
            if self.window.wants_more(self._now_us()):
                await put_off("due window", self.window.load(self._now_us(), self._lock()))

    async def _sweep(self) -> None:
        while True:
            await put_off("due sweep", self._forget_gone())
            await asyncio.sleep(SWEEP_EVERY_S)

    async def _forget_gone(self) -> None:
        """Delete the rows of queues that are gone."""
        for key in await self._due.progress():
            if self._find(key) is None:
                gone = False
                while not gone:
                    gone = await self._due.forget(self._lock(), key)
                    await asyncio.sleep(SWEEP_PAUSE_S)
        await self._due.forget_orphans(self._lock(), self._now_us() - ORPHAN_AFTER_US)
        await self._forwarded.forget_topics()
