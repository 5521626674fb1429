"""Shares the messages of one lane of a partition among all its subscriptions.

The tail keeps what this process itself appends, as long as a reader keeps up. It fetches all else
from the store; one fetch serves all readers that wait for its offsets. A batch is decoded once,
when a message of it is first delivered, and keeps its rendered messages. A byte budget over all
partitions decides which batches stay; a later reader fetches again.

A partition that was moved, or whose topic grew, is a chain of queues in which each begins with the
offset where the one before was sealed. Readers see one sequence of offsets.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Sequence

import structlog

from metadata.types import Partition, SealedPartition
from store_nodes.client import Entry, StoreClient
from store_nodes.errors import QueueNotFound, QueueTruncated, StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import BadBatch
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reading.batch import Batch, CacheBudget
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.delivery.reading.staged import StagedIds

MAX_FETCHES = 4
"""The limit of fetches in flight per partition; subscriptions far apart in it fetch beside
each other.
"""
MAX_UNREAD_BYTES = 1024 * 1024
"""Bytes of appends of this process that are kept before a reader has come to the last of them."""
MIN_BACKOFF_S = 0.02
MAX_BACKOFF_S = 1.0
MAX_GONE = 10_000
_log = structlog.get_logger("packetboat.subscribe")


class _Link:
    """One queue of the chain: it holds the offsets from `base` to `sealed_at`, or on."""

    __slots__ = ("base", "first", "generation", "group", "packed", "queue", "sealed_at")

    def __init__(self, topic_uid: bytes, generation: Partition | SealedPartition) -> None:
        self.group = generation.group
        self.generation = generation.generation
        self.queue = QueueId(topic_uid, generation.number, generation.lane, generation.generation)
        self.packed = self.queue.pack()
        self.base = generation.base
        self.first = generation.base
        self.sealed_at = generation.sealed_at if isinstance(generation, SealedPartition) else None


class Tail:
    """Reads one lane. `on_change` is called, on the loop, whenever more may be readable."""

    def __init__(
        self,
        store: StoreClient,
        topic_uid: bytes,
        generations: Sequence[Partition | SealedPartition],
        budget: CacheBudget,
        on_change: Callable[[], None],
        *,
        fetch_bytes: int,
        fetch_timeout_s: float,
        staged_ids: StagedIds | None = None,
        reload: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`reload` reads the topic anew and calls `follow`: for a queue that proves to be sealed
        before the change feed says what follows it."""
        self._store = store
        self._reload = reload
        self._topic_uid = topic_uid
        self._budget = budget
        self._on_change = on_change
        self._fetch_bytes = fetch_bytes
        self._fetch_timeout_s = fetch_timeout_s
        self.renderer = PartitionRenderer(
            topic_uid, generations[-1].number, staged_ids, generations[-1].lane
        )
        self.first = 0
        """Lower offsets are not readable, except for kept ones, which a fetch reports."""
        self._gone: set[int] = set()
        self.end: int | None = None
        """One past the last readable offset known; None before the store has said."""
        self.failure: Exception | None = None
        """The reason for which the last fetch failed; None after one that worked."""
        self._links: list[_Link] = []
        self._bases: list[int] = []
        self._batches: list[Batch] = []
        self._unread_bytes = 0
        self._fetching: dict[int, asyncio.Task[None]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._backoff_s = 0.0
        self._retry: asyncio.TimerHandle | None = None
        self.follow(generations)

    @property
    def queues(self) -> dict[QueueId, int]:
        """The queues of the chain, each with its group."""
        return {link.queue: link.group for link in self._links}

    def follow(self, generations: Sequence[Partition | SealedPartition]) -> bool:
        """Follow the chain of queues in the partitions table, oldest first; return whether it has
        changed.

        An older view than the one known changes nothing.
        """
        present = {link.queue: link for link in self._links}
        links = [_Link(self._topic_uid, generation) for generation in generations]
        if self._links and links[-1].generation < self._links[-1].generation:
            return False
        if [link.queue for link in links] == list(present):
            return False
        for link in links:
            known = present.get(link.queue)
            if known is not None:
                link.first = known.first
        self._links = links
        if self.end is not None:
            self.end = max(self.end, links[-1].base)
        self._find_first()
        return True

    def find(self, offset: int) -> Batch | None:
        """Return the cached batch that holds an offset, or None."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        batch = self._batches[index]
        if offset >= batch.end:
            return None
        if index == len(self._batches) - 1:
            self._unread_bytes = 0
        self._budget.touch(self, batch)
        return batch

    def has(self, offset: int) -> bool:
        """Return whether the message at an offset is cached."""
        index = bisect_right(self._bases, offset) - 1
        return index >= 0 and offset < self._batches[index].end

    def empty_to(self, offset: int) -> int:
        """Return the end of a stretch from `offset` on that never had messages, or `offset`.

        A restored store continues further up, with a queue whose first offsets are left out.
        """
        if self.first <= offset < (link := self._link_of(offset)).first:
            return link.first
        return offset

    def gone(self, offset: int) -> bool:
        """Return whether a fetch of the offset found that it is no longer stored."""
        return offset in self._gone

    def want(self, offset: int) -> None:
        """Start to fetch from `offset` unless that is under way; `on_change` is called after it."""
        if self._retry is not None or offset in self._fetching:
            return
        if len(self._fetching) >= MAX_FETCHES:
            return  # the end of a fetch calls on_change, and readers that still wait ask again
        self._fetching[offset] = asyncio.get_running_loop().create_task(self._fetch(offset))

    def on_offsets(self, queue: bytes, first: int, end: int) -> None:
        """Take the first offset and the end of a queue from the store; older values are ignored."""
        for link in reversed(self._links):
            if link.packed == queue:
                if self._note(link, first, end):
                    self._on_change()
                return

    def on_append(self, queue: bytes, entry: Entry) -> None:
        """Keep a batch that this process has appended to a queue, unless too much is unread."""
        if self._unread_bytes > MAX_UNREAD_BYTES:
            return  # its readers are behind: they fetch it in their turn
        for link in reversed(self._links):
            if link.packed == queue:
                self._unread_bytes += len(entry.batch)
                batch = Batch(entry, link.generation, link.queue.partition)
                self._keep(batch)
                if self._note(link, link.first, batch.end):
                    self._on_change()
                return

    async def refresh(self) -> None:
        """Return once `end` covers all that was readable at the call, or the store cannot say."""
        if self._refreshing is not None:
            await asyncio.shield(self._refreshing)  # began before this call: not enough
        if self._refreshing is None:
            task = asyncio.get_running_loop().create_task(self._refresh())
            self._refreshing = task
        await asyncio.shield(self._refreshing)

    def forget(self, batch: Batch) -> None:
        """Drop a batch; the budget calls it."""
        index = bisect_left(self._bases, batch.base)
        del self._bases[index], self._batches[index]

    def unreadable(self, error: BadBatch) -> None:
        """Note a batch whose CRC holds and which cannot be decoded: its readers stay before it, and
        say so.
        """
        if self.failure is None:
            _log.error("unreadable batch", queue=str(self._links[-1].queue), error=str(error))
        self.failure = error

    async def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        tasks = list(self._fetching.values())
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in self._batches:
            self._budget.remove(self, batch)
        self._bases.clear()
        self._batches.clear()

    def _note(self, link: _Link, first: int, end: int) -> bool:
        """Note the bounds of a queue; return whether more is readable, or less kept, now."""
        grew = self.end is None or end > self.end
        if grew:
            self.end = end
        if first > link.first:
            link.first = first
            grew |= self._find_first()
        return grew

    def _find_first(self) -> bool:
        """Find the first offset of the first queue that has any; return whether it is
        higher than before.
        """
        before = self.first
        for link in self._links:
            self.first = max(self.first, link.first)
            if link.sealed_at is None or link.first < link.sealed_at:
                break
        return self.first > before

    def _link_of(self, offset: int) -> _Link:
        """Return the queue that holds an offset, or the oldest queue for an offset below all."""
        for link in reversed(self._links):
            if offset >= link.base:
                return link
        return self._links[0]

    async def _fetch(self, offset: int) -> None:
        """Fetch from an offset into the cache; back off if the store fails or the replica is
        behind.
        """
        link = self._link_of(offset)
        try:
            async with asyncio.timeout(self._fetch_timeout_s):
                grew = await self._fetch_once(link, offset)
        except QueueTruncated as error:
            self._recovered()
            link.first = max(link.first, error.first_offset)
            self._find_first()
            if len(self._gone) >= MAX_GONE:
                self._gone.clear()  # a reader that needs to know asks again
            self._gone.add(offset)
        except Exception as error:
            self._failed(link, error)
        else:
            self._recovered()
            if not grew and self.end is not None and offset < self.end:
                self._back_off()  # the replica that answered is behind
        finally:
            del self._fetching[offset]
        self._on_change()

    async def _fetch_once(self, link: _Link, offset: int) -> bool:
        """Fetch batches into the cache; return False if the store has none."""
        with metrics.fetch_seconds.time():
            fetched = await self._store.fetch(
                link.group, link.queue, offset, self._fetch_bytes, min_end=offset + 1
            )
        self._note(link, fetched.first_offset, fetched.readable_end)
        metrics.fetched_bytes.inc(sum(len(entry.batch) for entry in fetched.entries))
        batches: list[Batch] = []
        left_bytes = self._budget.chunk_bytes
        for entry in fetched.entries:
            if left_bytes > 0:
                batches.append(Batch(entry, link.generation, link.queue.partition))
                left_bytes -= batches[-1].cost_bytes
        if not batches:
            return False
        for batch in batches:
            batch.chunk_end = batches[-1].end
            self._keep(batch)
        return True

    def _keep(self, batch: Batch) -> None:
        """Put a batch into the cache, unless it is there."""
        index = bisect_left(self._bases, batch.base)
        if index < len(self._bases) and self._bases[index] == batch.base:
            self._batches[index].chunk_end = max(self._batches[index].chunk_end, batch.chunk_end)
            return
        self._bases.insert(index, batch.base)
        self._batches.insert(index, batch)
        self._budget.add(self, batch)

    async def _refresh(self) -> None:
        """Ask the store for the end of the newest queue; follow a sealed one to its successor."""
        try:
            link = self._links[-1]
            offsets = await self._store.offsets(link.group, link.queue)
            if offsets.sealed and self._reload is not None:
                await self._reload()
                if self._links[-1].queue != link.queue:
                    link = self._links[-1]
                    offsets = await self._store.offsets(link.group, link.queue)
        except StoreError as error:
            self.failure = error
        else:
            if not isinstance(self.failure, BadBatch):
                self.failure = None
            self.on_offsets(offsets.queue, offsets.first, offsets.end)
        finally:
            self._refreshing = None

    def _recovered(self) -> None:
        """Forget the last failure, and fetch without a wait again."""
        self.failure = None
        self._backoff_s = 0.0

    def _failed(self, link: _Link, error: Exception) -> None:
        metrics.fetch_failed.labels(type(error).__name__).inc()
        if self.failure is None and not isinstance(error, QueueNotFound):
            expected = isinstance(error, StoreError | BadBatch | TimeoutError)
            _log.warning(
                "fetch failed",
                queue=str(link.queue),
                error=repr(error),
                exc_info=None if expected else error,
            )
        self.failure = error
        self._back_off()

    def _back_off(self) -> None:
        self._backoff_s = min(MAX_BACKOFF_S, max(MIN_BACKOFF_S, 2 * self._backoff_s))
        if self._retry is None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(self._backoff_s, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._on_change()


def wall_us() -> int:
    """Return the time of the wall clock in microseconds, for times to live only."""
    return time.time_ns() // 1000
