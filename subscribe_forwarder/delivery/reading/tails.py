"""Keeps the tails of this process: one per lane of the units it owns, and a watch per group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from metadata.types import Partition, SealedPartition, Topic, Unit
from store_nodes.client import Entry, QueueOffsets, Receipt, StoreClient, Watch
from store_nodes.queue_id import QueueId
from subscribe_forwarder.delivery.reading.batch import CacheBudget
from subscribe_forwarder.delivery.reading.staged import StagedIds
from subscribe_forwarder.delivery.reading.tail import Tail
from subscribe_forwarder.settings import SubscribeSettings


class _Shared:
    """A tail, and how many opened it."""

    __slots__ = ("tail", "users")

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.users = 0


class Tails:
    """Opens the tails of units, and shares each among its users.

    Tails and barriers go by one view of each topic, the newest that anything here was told of: so
    that no reader is led past a growth before it waits for the others. A partition and the parts
    that are split off it share their tails. Each caller closes the tail that it opened, and the
    last close ends it.
    """

    def __init__(
        self,
        store: StoreClient,
        settings: SubscribeSettings,
        staged_ids: StagedIds,
        *,
        on_change: Callable[[Unit, int], None],
        reload: Callable[[Topic], Awaitable[None]],
    ) -> None:
        """`on_change`: of this lane of a whole partition more may be readable, or less kept;
        `reload`: the topic should be read."""
        self._store = store
        self._settings = settings
        self._staged_ids = staged_ids
        self._on_change = on_change
        self._reload = reload
        self._budget = CacheBudget(settings.cache_bytes)
        self._queues: dict[bytes, Tail] = {}
        """Tails by packed queue id; a tail has one for each generation."""
        self._shared: dict[tuple[Unit, int], _Shared] = {}
        self._watches: dict[int, Watch] = {}
        self._topics: dict[bytes, Topic] = {}

    @property
    def cached_bytes(self) -> int:
        return self._budget.used_bytes

    def latest(self, topic: Topic) -> Topic:
        """Return this view of the topic, or the newer one that is known."""
        known = self._topics.get(topic.uid)
        if known is not None and known.version > topic.version:
            return known
        self._topics[topic.uid] = topic
        return topic

    def forget_topic(self, uid: bytes) -> None:
        self._topics.pop(uid, None)

    def open(self, key: Unit, topic: Topic, lane: int = 0) -> Tail | None:
        """Open a tail; return None if the topic has no such partition, or the partition no
        such lane.
        """
        topic = self.latest(topic)
        generations = topic.generations(key.partition, lane)
        if not generations:
            return None
        place = (key.base, lane)
        shared = self._shared.get(place)
        if shared is None:
            shared = self._shared[place] = _Shared(self._new(topic, generations, *place))
        shared.users += 1
        return shared.tail

    def _new(
        self, topic: Topic, generations: Sequence[Partition | SealedPartition], key: Unit, lane: int
    ) -> Tail:
        tail = Tail(
            self._store,
            topic.uid,
            generations,
            self._budget,
            lambda: self._on_change(key, lane),
            fetch_bytes=self._settings.fetch_bytes,
            fetch_timeout_s=self._settings.fetch_timeout_s,
            staged_ids=self._staged_ids,
            reload=lambda: self._reload(topic),
        )
        self._watch(tail, {})
        return tail

    def follow(self, tail: Tail, key: Unit, topic: Topic, lane: int = 0) -> bool:
        """Follow the lane's chain of queues; return whether it has changed."""
        before = tail.queues
        changed = tail.follow(topic.generations(key.partition, lane))
        if changed:
            self._watch(tail, before)
        return changed

    async def close(self, key: Unit, lane: int) -> None:
        """Close a tail once for each `open`."""
        shared = self._shared[key.base, lane]
        shared.users -= 1
        if shared.users:
            return
        del self._shared[key.base, lane]
        for queue, group in shared.tail.queues.items():
            self._unwatch(queue, group)
        await shared.tail.close()

    async def close_all(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        shared, self._shared = self._shared, {}
        await asyncio.gather(*(one.tail.close() for one in shared.values()))
        self._queues.clear()

    def _watch(self, tail: Tail, before: Mapping[QueueId, int]) -> None:
        now = tail.queues
        for queue, group in before.items():
            if queue not in now:
                self._unwatch(queue, group)
        for queue, group in now.items():
            if queue in before:
                continue
            self._queues[queue.pack()] = tail
            watch = self._watches.get(group)
            if watch is None:
                watch = self._watches[group] = self._store.watch(
                    group, self._on_offsets, self._on_append
                )
            watch.add(queue)

    def _unwatch(self, queue: QueueId, group: int) -> None:
        self._queues.pop(queue.pack(), None)
        watch = self._watches.get(group)
        if watch is not None:
            watch.remove(queue)

    def _on_offsets(self, changed: Sequence[QueueOffsets]) -> None:
        """Pass queue states of a watch to the tails of their queues."""
        for offsets in changed:
            tail = self._queues.get(offsets.queue)
            if tail is not None:
                tail.on_offsets(offsets.queue, offsets.first, offsets.end)

    def _on_append(self, queue: bytes, receipt: Receipt, batch: bytes) -> None:
        """Pass what this process has appended to the tail of its queue, which need not fetch it."""
        tail = self._queues.get(queue)
        if tail is not None:
            stored = Entry(receipt.base_offset, receipt.log_time_us, None, None, memoryview(batch))
            tail.on_append(queue, stored)
