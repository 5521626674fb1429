"""Reads stored messages without a subscription: no ack state, no ownership, no cache.

Deliveries have priority: all replays of the process share a few permits to fetch messages and to
encode them, each fetch has a bounded size, and a replay beyond the limit is refused. Time slices
(time_slices.py) divide the work on fetched messages. A replay that waits, for messages or for its
client, has no permit, and keeps fetched messages only within `KEPT_BYTES`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from edge.problem import Problem
from edge.shares import SHARE, FairSemaphore, Shares
from metadata.catalog import Catalog
from metadata.types import SealedPartition, Topic
from positions.places import Bounds, bounds, holder, queue_of
from store_nodes.client import Entry, FetchedEntries, StoreClient
from store_nodes.errors import QueueNotFound, QueueTruncated, Unavailable
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.time_slices import TimeSlices

MAX_REPLAYS = 64
"""The limit of replays at a time in one process, those that wait for new messages included."""
MAX_ANSWERS = 4
"""Whole answers, and parts of streams, that are put together at a time, half of them for one
tenant. An answer has 8 MiB of messages, a third more in Base64: sixty clients of one tenant that
asked for such answers took 480 MiB. Once it is written, it counts as unsent.
"""
KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of fetched messages that streams may keep while their clients take the part before; half
of them for one tenant. A stream that may not keep the rest of a fetch fetches it again."""
FETCH_BYTES = 1024 * 1024
BEHIND_S = 3.0
"""Seconds for which a replica may lack messages that another has answered for."""
FIRST_LOOK_S = 0.02
LAST_LOOK_S = 0.5
"""Seconds between looks for new messages of a waiting replay: first short, then longer."""


class Run(NamedTuple):
    """Messages of one batch, those with the indices `low` … `high` − 1."""

    batch: Batch
    low: int
    high: int

    @property
    def next_offset(self) -> int:
        return self.batch.base + self.high


class Found:
    """The result of one fetch for the offsets `low` … `high` − 1, as runs that are used up once.

    A batch is opened when it is reached, because that looks at all its bytes: raises BadBatch.
    """

    __slots__ = ("_batch", "_entries", "_generation", "_number", "high", "low")

    def __init__(
        self, entries: Sequence[Entry], generation: int, number: int, low: int, high: int
    ) -> None:
        self._entries = deque(entries)
        self._batch: Batch | None = None
        self._generation = generation
        self._number = number
        self.low = low
        """The first offset that is left; set it to stop within a run."""
        self.high = high

    def __bool__(self) -> bool:
        return self.low < self.high

    def __iter__(self) -> Iterator[Run]:
        while True:
            batch = self._batch
            if batch is None or batch.end <= self.low:
                if not self._entries:
                    return
                batch = self._batch = Batch(self._entries.popleft(), self._generation, self._number)
            low, high = max(self.low, batch.base), min(self.high, batch.end)
            if low < high:
                yield Run(batch, low - batch.base, high - batch.base)
            self.low = batch.end

    @property
    def left_bytes(self) -> int:
        """The memory that is held by what is left, estimated."""
        left_bytes = sum(len(entry.batch) for entry in self._entries)
        return left_bytes if self._batch is None else left_bytes + self._batch.cost_bytes


class Truncated(Exception):
    """Nothing is stored at the offset; `first` is where it begins."""

    def __init__(self, first: int) -> None:
        super().__init__(f"the first offset is {first}")
        self.first = first


class Replays:
    """All replay reads of a process."""

    def __init__(
        self,
        store: StoreClient,
        catalog: Catalog,
        late_s: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the replays of a process; `late_s` returns how late the loop calls timers now."""
        self.store = store
        self.catalog = catalog
        self.clock = clock
        # All that have a place may wait: this bound is never reached, or crowded.
        self.answers = FairSemaphore(Shares(MAX_ANSWERS), Shares(2 * MAX_REPLAYS, 1))
        self.kept = Shares(KEPT_BYTES, name="replay_bytes")
        self.turns = TimeSlices(late_s, clock=clock)
        self.places = Shares(MAX_REPLAYS, name="replays")

    @contextmanager
    def place(self, tenant_id: bytes) -> Iterator[None]:
        """Take a place; raises a 503 Problem if all are taken, or the tenant has its share."""
        with self.places.held_by(tenant_id) as refused:
            if refused is not None:
                whose = "of this tenant" if refused == SHARE else "at most"
                running = self.places.of(tenant_id) if refused == SHARE else MAX_REPLAYS
                raise Problem.of(
                    "too-many-replays",
                    f"{running:g} replay reads {whose} are running here; ask again.",
                    retry_after_s=1.0,
                )
            yield


class LaneReplay:
    """One replay of one lane of a partition. Raises StoreError, MetadataError, and BadBatch."""

    def __init__(self, replays: Replays, topic: Topic, number: int, lane: int) -> None:
        self._replays = replays
        self._topic = topic
        self._number = number
        self._lane = lane
        self.bounds = Bounds(0, 0)
        """The bounds at the last look."""

    async def look(self) -> Bounds:
        """Return the stored bounds; if the partition was moved meanwhile, those of its new
        place.
        """
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

    async def reads(self, offset: int, end: int | None = None) -> AsyncGenerator[Found, None]:
        """Yield the messages from `offset` on that are stored at the last look, up to `end`.

        Below the first offset, yield the message of a kept offset alone, or raise Truncated.
        """
        while offset < self.bounds.end and (end is None or offset < end):
            alone, found = await self.read(offset, end)
            yield found
            if alone:
                return
            offset = found.high

    async def reaches(self, offset: int, wait_s: float) -> bool:
        """Return whether the partition reaches beyond `offset`, now or within `wait_s`."""
        clock = self._replays.clock
        until_s, look_s = clock() + wait_s, FIRST_LOOK_S
        while offset >= self.bounds.end:
            if wait_s:
                await self.look()
                if offset < self.bounds.end:
                    break
            if clock() >= until_s:
                return False
            await asyncio.sleep(look_s)
            look_s = min(LAST_LOOK_S, 2 * look_s)
        return True

    async def read(self, offset: int, end: int | None) -> tuple[bool, Found]:
        """Fetch once, after `reaches`: return whether `offset` is a kept one below the first, and
        the messages from it on, at least one: a replica may be behind."""
        behind_s, look_s = self._replays.clock() + BEHIND_S, FIRST_LOOK_S
        while True:
            alone, found = await self._read(offset, end)
            if found:
                return alone, found
            if self._replays.clock() >= behind_s:
                raise Unavailable(f"no replica answers with offset {offset}")
            await asyncio.sleep(look_s)
            look_s = min(LAST_LOOK_S, 2 * look_s)

    async def _read(self, offset: int, end: int | None) -> tuple[bool, Found]:
        """Return what `read` does, or no message where the replica that answers is behind."""
        generation = holder(self._topic, self._number, self._lane, offset)
        try:
            fetched = await self._fetch(generation.group, offset)
        except QueueTruncated as error:
            raise Truncated(await self._first_after(error.first_offset)) from error
        except QueueNotFound as error:
            if not isinstance(generation, SealedPartition):
                raise
            raise Truncated(await self._first_after(generation.sealed_at)) from error
        entries, number = fetched.entries, generation.generation
        high = Batch(entries[-1]).end if entries else offset
        alone = offset < fetched.first_offset
        if alone:
            high = min(high, offset + 1)
        if end is not None:
            high = min(high, end)
        return alone, Found(entries, number, self._number, offset, high)

    async def _fetch(self, group: int, offset: int) -> FetchedEntries:
        queue = queue_of(self._topic, holder(self._topic, self._number, self._lane, offset))
        return await self._replays.store.fetch(
            group, queue, offset, FETCH_BYTES, min_end=offset + 1
        )

    async def _first_after(self, at_least: int) -> int:
        return max(at_least, (await self.look()).first)
