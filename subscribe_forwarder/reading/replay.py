"""Reading what is stored, apart from every subscription: no ack state, no ownership, no cache.

Deliveries go first: a few fetches at once between all replays of the process, each of a bounded
size, and so many replays and no more; what is beyond is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from edge.problem import Problem
from metadata.types import SealedPartition, Topic
from store_nodes.errors import QueueNotFound, QueueTruncated, Unavailable
from subscribe_forwarder.ports import Catalog, Fetched, Store
from subscribe_forwarder.reading.batch import Batch
from subscribe_forwarder.reading.places import Bounds, bounds, holder, queue_of

MAX_REPLAYS = 64
"""At once in one process, those that wait for new messages too."""
MAX_FETCHES = 4
FETCH_BYTES = 1024 * 1024
BEHIND_S = 3.0
"""How long a replica may not have what another has answered for."""
FIRST_LOOK_S = 0.02
LAST_LOOK_S = 0.5
"""How often a replay that waits looks for new messages: soon, then less and less."""


class Run(NamedTuple):
    """Messages of one batch, those with the indices `low` … `high` − 1."""

    batch: Batch
    low: int
    high: int

    @property
    def next_offset(self) -> int:
        return self.batch.base + self.high

    def below(self, end: int | None) -> Run:
        """What of it is below this offset, which is beyond its first."""
        if end is None or self.next_offset <= end:
            return self
        return self._replace(high=end - self.batch.base)


class Truncated(Exception):
    """Nothing is stored at the offset; `first` is where it begins."""

    def __init__(self, first: int) -> None:
        super().__init__(f"the first offset is {first}")
        self.first = first


class Replays:
    """All replay reads of a process."""

    def __init__(
        self, store: Store, catalog: Catalog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.clock = clock
        self.fetching = asyncio.Semaphore(MAX_FETCHES)
        self._running = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """One of the places there are; a 503 Problem where all are taken."""
        if self._running >= MAX_REPLAYS:
            raise Problem(
                503,
                "too-many-replays",
                "Too many replay reads",
                f"{MAX_REPLAYS} replay reads are running here; ask again.",
                retry_after_s=1.0,
            )
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


class LaneReplay:
    """One replay of one lane of a partition. Raises StoreError, MetadataError, and BadBatch."""

    def __init__(self, replays: Replays, topic: Topic, number: int, lane: int) -> None:
        self._replays = replays
        self._topic = topic
        self._number = number
        self._lane = lane
        self.bounds = Bounds(0, 0)
        """As last looked at."""

    async def look(self) -> Bounds:
        """What is stored now; of a partition that was moved meanwhile, where it is now."""
        *before, present = self._topic.generations(self._number, self._lane)
        store = self._replays.store
        found = await store.offsets(present.group, queue_of(self._topic, present))
        if not before and not found.sealed:
            self.bounds = Bounds(found.first, found.end)
            return self.bounds
        if found.sealed:
            catalog = self._replays.catalog
            now = await catalog.topic(self._topic.tenant_id, self._topic.name, refresh=True)
            if now.uid == self._topic.uid:
                self._topic = now
        self.bounds = await bounds(store, self._topic, self._number, self._lane)
        return self.bounds

    async def runs(
        self, offset: int, wait_s: float = 0.0, end: int | None = None
    ) -> AsyncGenerator[Run, None]:
        """From `offset` on, after a `look`, until none are left for `wait_s`, or to `end`: of what
        is fetched beyond it nothing is given.

        Truncated below the first offset; of a kept offset there, its message alone.
        """
        clock = self._replays.clock
        until_s, look_s = clock() + wait_s, FIRST_LOOK_S
        behind_s = clock() + BEHIND_S
        while end is None or offset < end:
            if offset < self.bounds.end:
                alone, found = await self._read(offset)
                for run in found:
                    yield run.below(end)
                    offset = run.next_offset
                    if end is not None and offset >= end:
                        return
                if alone:
                    return
                if found:
                    until_s, look_s = clock() + wait_s, FIRST_LOOK_S
                    behind_s = clock() + BEHIND_S
                    continue
                if clock() >= behind_s:
                    raise Unavailable(f"no replica answers with offset {offset}")
            elif wait_s:
                behind_s = clock() + BEHIND_S
                await self.look()
                if offset < self.bounds.end:
                    continue
            if offset >= self.bounds.end and clock() >= until_s:
                return
            await asyncio.sleep(look_s)
            look_s = min(LAST_LOOK_S, 2 * look_s)

    async def _read(self, offset: int) -> tuple[bool, list[Run]]:
        """One fetch: whether it was a kept offset, and what there is from `offset` on."""
        generation = holder(self._topic, self._number, self._lane, offset)
        try:
            fetched = await self._fetch(generation.group, offset)
        except QueueTruncated as error:
            raise Truncated(await self._first_after(error.first_offset)) from error
        except QueueNotFound as error:
            if not isinstance(generation, SealedPartition):
                raise
            raise Truncated(await self._first_after(generation.sealed_at)) from error
        runs = []
        for entry in fetched.entries:
            batch = Batch(entry, generation.generation, self._number)
            if batch.end > offset:
                runs.append(Run(batch, max(0, offset - batch.base), batch.end - batch.base))
        if offset < fetched.first_offset:
            return True, [run._replace(high=run.low + 1) for run in runs[:1]]
        return False, runs

    async def _fetch(self, group: int, offset: int) -> Fetched:
        queue = queue_of(self._topic, holder(self._topic, self._number, self._lane, offset))
        async with self._replays.fetching:
            return await self._replays.store.fetch(
                group, queue, offset, FETCH_BYTES, min_end=offset + 1
            )

    async def _first_after(self, at_least: int) -> int:
        return max(at_least, (await self.look()).first)
