"""The messages of one partition as all its subscriptions share them.

One fetch serves whoever waits for those offsets, a batch is decoded once, when a message of it is
first handed out, and what is rendered is kept beside it. A byte budget over all partitions decides
what stays; a reader that comes back later fetches again.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable

import structlog

from store_nodes import record_batch
from store_nodes.errors import QueueNotFound, QueueTruncated, StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import BadBatch, Message
from subscribe_forwarder import metrics
from subscribe_forwarder.ports import Buffer, Entry, Store
from subscribe_forwarder.render import PartitionRenderer, time_json

MAX_FETCHES = 4
"""In flight per partition; subscriptions far apart in it fetch side by side."""
CHUNKS = 16
MIN_BACKOFF_S = 0.02
MAX_BACKOFF_S = 1.0
_MESSAGE_OVERHEAD_BYTES = 600
_log = structlog.get_logger("packetboat.subscribe")


class Batch:
    """One stored batch: raw until a message of it is needed."""

    __slots__ = (
        "_fragments",
        "_indices",
        "_messages",
        "_publish_time",
        "_raw",
        "base",
        "chunk_end",
        "cost_bytes",
        "end",
        "expires",
        "log_time_us",
    )

    def __init__(self, entry: Entry) -> None:
        self._raw: Buffer = entry.batch
        self._indices = entry.indices
        count = record_batch.peek(entry.batch)[0] if entry.indices is None else len(entry.indices)
        self.base = entry.base_offset
        self.end = entry.base_offset + count
        self.chunk_end = self.end
        self.log_time_us = entry.log_time_us
        self.cost_bytes = 2 * len(entry.batch) + _MESSAGE_OVERHEAD_BYTES * count
        self.expires = False
        """Whether a message of it has a time to live; known once decoded."""
        self._messages: list[Message] | None = None
        self._fragments: list[bytes | None] = []
        self._publish_time = b""

    def messages(self) -> list[Message]:
        """Decoded once; index 0 is the message at `base`. Raises BadBatch."""
        if self._messages is None:
            messages = record_batch.decode(self._raw)
            if self._indices is not None:
                messages = [messages[index] for index in self._indices]
            self._messages = messages
            self.expires = any(message.ttl_ms for message in messages)
            self._fragments = [None] * len(messages)
            self._publish_time = time_json(self.log_time_us)
            self._raw = b""
        return self._messages

    def expired(self, index: int, now_us: int) -> bool:
        message = self.messages()[index]
        born_us = max(self.log_time_us, message.deliver_at_us)
        return bool(message.ttl_ms) and born_us + message.ttl_ms * 1000 <= now_us

    def fragment(self, index: int, renderer: PartitionRenderer) -> bytes:
        """What every delivery of the message shares, rendered once."""
        fragment = self._fragments[index]
        if fragment is None:
            message = self.messages()[index]
            fragment = renderer.fragment(message, self.base + index, self._publish_time)
            self._fragments[index] = fragment
        return fragment


class CacheBudget:
    """Bounds the batches of all tails together; the least recently used leaves first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.chunk_bytes = limit_bytes // CHUNKS
        """What one fetch may take of it: small messages cost far more here than on the wire."""
        self._batches: OrderedDict[tuple[int, int], tuple[Tail, Batch]] = OrderedDict()
        self.used_bytes = 0

    def add(self, tail: Tail, batch: Batch) -> None:
        self._batches[id(tail), batch.base] = tail, batch
        self.used_bytes += batch.cost_bytes
        while self.used_bytes > self._limit_bytes and len(self._batches) > 1:
            _, (owner, oldest) = self._batches.popitem(last=False)
            self.used_bytes -= oldest.cost_bytes
            owner.forget(oldest)
        metrics.cache_bytes.set(self.used_bytes)

    def touch(self, tail: Tail, batch: Batch) -> None:
        self._batches.move_to_end((id(tail), batch.base))

    def remove(self, tail: Tail, batch: Batch) -> None:
        del self._batches[id(tail), batch.base]
        self.used_bytes -= batch.cost_bytes


class Tail:
    """Reads one queue. `on_change` is called, on the loop, whenever more may be readable."""

    def __init__(
        self,
        store: Store,
        group: int,
        queue: QueueId,
        budget: CacheBudget,
        on_change: Callable[[], None],
        *,
        fetch_bytes: int,
        fetch_timeout_s: float,
    ) -> None:
        self._store = store
        self.group = group
        self.queue = queue
        self._budget = budget
        self._on_change = on_change
        self._fetch_bytes = fetch_bytes
        self._fetch_timeout_s = fetch_timeout_s
        self.renderer = PartitionRenderer(queue.topic_uid, queue.partition)
        self.first = 0
        self.end: int | None = None
        """One past the last readable offset known; None before the store has said."""
        self.failure: Exception | None = None
        """Why the last fetch failed; None after one that worked."""
        self._bases: list[int] = []
        self._batches: list[Batch] = []
        self._fetching: dict[int, asyncio.Task[None]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._backoff_s = 0.0
        self._retry: asyncio.TimerHandle | None = None

    def find(self, offset: int) -> Batch | None:
        """The cached batch that holds `offset`."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        batch = self._batches[index]
        if offset >= batch.end:
            return None
        self._budget.touch(self, batch)
        return batch

    def has(self, offset: int) -> bool:
        index = bisect_right(self._bases, offset) - 1
        return index >= 0 and offset < self._batches[index].end

    def want(self, offset: int) -> None:
        """Starts fetching from `offset` unless that is under way; `on_change` tells when done."""
        if self._retry is not None or offset in self._fetching:
            return
        if len(self._fetching) >= MAX_FETCHES:
            return  # one of them ending calls on_change, and whoever still wants asks again
        self._fetching[offset] = asyncio.get_running_loop().create_task(self._fetch(offset))

    def on_offsets(self, first: int, end: int) -> None:
        """The store says where the queue starts and ends; late news is ignored."""
        grew = self.end is None or end > self.end or first > self.first
        self.first = max(self.first, first)
        self.end = end if self.end is None else max(self.end, end)
        if grew:
            self._on_change()

    async def refresh(self) -> None:
        """Returns when `end` covers what was readable at the call, or the store can't tell."""
        if self._refreshing is not None:
            await asyncio.shield(self._refreshing)  # began before this call: not enough
        if self._refreshing is None:
            task = asyncio.get_running_loop().create_task(self._refresh())
            self._refreshing = task
        await asyncio.shield(self._refreshing)

    def forget(self, batch: Batch) -> None:
        """Called by the budget."""
        index = bisect_left(self._bases, batch.base)
        del self._bases[index], self._batches[index]

    def unreadable(self, error: BadBatch) -> None:
        """A batch whose CRC holds and which is no batch: its readers stay before it, and say so."""
        if self.failure is None:
            _log.error("unreadable batch", queue=str(self.queue), error=str(error))
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

    async def _fetch(self, offset: int) -> None:
        try:
            async with asyncio.timeout(self._fetch_timeout_s):
                grew = await self._fetch_once(offset)
        except QueueTruncated as error:
            self._recovered()
            self.first = max(self.first, error.first_offset)
        except Exception as error:
            self._failed(error)
        else:
            self._recovered()
            if not grew and self.end is not None and offset < self.end:
                self._back_off()  # the replica that answered is behind
        finally:
            del self._fetching[offset]
        self._on_change()

    async def _fetch_once(self, offset: int) -> bool:
        with metrics.fetch_seconds.time():
            fetched = await self._store.fetch(
                self.group, self.queue, offset, self._fetch_bytes, min_end=offset + 1
            )
        self.first = max(self.first, fetched.first_offset)
        end = fetched.readable_end
        self.end = end if self.end is None else max(self.end, end)
        batches: list[Batch] = []
        left_bytes = self._budget.chunk_bytes
        for entry in fetched.entries:
            if left_bytes > 0:
                batches.append(Batch(entry))
                left_bytes -= batches[-1].cost_bytes
        if not batches:
            return False
        for batch in batches:
            batch.chunk_end = batches[-1].end
            index = bisect_left(self._bases, batch.base)
            if index < len(self._bases) and self._bases[index] == batch.base:
                self._batches[index].chunk_end = batch.chunk_end
                continue
            self._bases.insert(index, batch.base)
            self._batches.insert(index, batch)
            self._budget.add(self, batch)
        return True

    async def _refresh(self) -> None:
        try:
            offsets = await self._store.offsets(self.group, self.queue)
        except StoreError as error:
            self.failure = error
        else:
            if not isinstance(self.failure, BadBatch):
                self.failure = None
            self.on_offsets(offsets.first, offsets.end)
        finally:
            self._refreshing = None

    def _recovered(self) -> None:
        self.failure = None
        self._backoff_s = 0.0

    def _failed(self, error: Exception) -> None:
        metrics.fetch_failed.labels(type(error).__name__).inc()
        if self.failure is None and not isinstance(error, QueueNotFound):
            expected = isinstance(error, StoreError | BadBatch | TimeoutError)
            _log.warning(
                "fetch failed",
                queue=str(self.queue),
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
    """The wall clock, for times to live only."""
    return time.time_ns() // 1000
