"""Accepts messages and makes them durable: topic → partition → batch → log → receipt.

What is answered and when (`durability`):

    quorum, all   201 after the store says so, with message id and offset
    leader        202 with a publish id once the leader has it
    none          202 with a publish id at once

A publish is accepted when its memory is reserved and its parcel is in a lane; from then on it goes
to the store whatever happens to the request that brought it. Before that, nothing is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterable, Sequence
from functools import partial

from prometheus_client import REGISTRY, CollectorRegistry

from edge.problem import Problem
from metadata.errors import MetadataError
from metadata.types import Topic
from publish_forwarder.budget import Budget, Share
from publish_forwarder.coalescer import Lane, Outcome, Parcel, Placed
from publish_forwarder.failures import is_of_topic, problem_of_lookup, stopping
from publish_forwarder.metrics import PublishMetrics
from publish_forwarder.ports import Store, TopicSource
from publish_forwarder.receipts import ReceiptWriter
from publish_forwarder.router import TopicRoutes, partition_of, routing_key
from publish_forwarder.settings import PublishSettings
from store_nodes.errors import StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import Durability

EARLY = frozenset({Durability.LEADER, Durability.NONE})
"""Durabilities answered 202: what is answered may still be lost."""
SWEEP_S = 0.025
MESSAGE_OVERHEAD_BYTES = 160
"""More than the encoding of a message adds to its texts, and about what it costs in memory."""
MAX_RUN_BYTES = 1024 * 1024
"""Unkeyed messages of one request are cut into parcels of this size, each to its own partition."""


def message_bytes(message: Message) -> int:
    """An upper bound of the encoded size, without encoding."""
    size = MESSAGE_OVERHEAD_BYTES + len(message.data)
    for text in (message.key, message.content_type, message.publisher_id, message.idempotency_key):
        if text is not None:
            size += _utf8_bytes(text)
    if message.attributes is not None:
        for name, value in message.attributes.items():
            size += _utf8_bytes(name) + _utf8_bytes(value) + 8
    return size


def _utf8_bytes(text: str) -> int:
    """Exact for ASCII, else an upper bound."""
    return len(text) if text.isascii() else 4 * len(text)


class PublishForwarder:
    """One per process. `start` and `close` on the event loop that serves the requests."""

    def __init__(
        self,
        catalog: TopicSource,
        store: Store,
        settings: PublishSettings | None = None,
        *,
        registry: CollectorRegistry | None = REGISTRY,
    ) -> None:
        self.settings = settings or PublishSettings()
        self.budget = Budget(self.settings)
        self.metrics = PublishMetrics(self.budget, lambda: len(self._routes))
        self._catalog = catalog
        self._store = store
        self._registry = registry
        self._routes: dict[bytes, TopicRoutes] = {}
        self._retired: list[TopicRoutes] = []
        self._stale: set[tuple[bytes, str]] = set()
        self._waiting: set[Lane] = set()
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._accepting = False
        self._incarnation = os.urandom(8).hex()
        self._publish_ids = itertools.count(1)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._registry is not None:
            self._registry.register(self.metrics)
        self._accepting = True

    async def close(self) -> None:
        """Refuses what is new, waits for what was accepted, and answers the rest honestly."""
        if not self._accepting:
            return
        self._accepting = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_s):
                await self.budget.until_idle()
        for lane in self._lanes():
            lane.stop(stopping())
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        if self._registry is not None:
            self._registry.unregister(self.metrics)

    async def routes_of(self, tenant_id: bytes, topic_name: str) -> TopicRoutes:
        """The lanes of a topic. Nothing is awaited for a topic that is cached."""
        topic = self._catalog.cached_topic(tenant_id, topic_name)
        if topic is None or (self._stale and (tenant_id, topic_name) in self._stale):
            topic = await self._look_up(tenant_id, topic_name)
        routes = self._routes.get(topic.uid)
        if routes is None or routes.topic is not topic:
            routes = self._open(topic, routes)
        if not self._accepting:
            raise stopping()
        return routes

    async def _look_up(self, tenant_id: bytes, topic_name: str) -> Topic:
        stale = (tenant_id, topic_name) in self._stale
        try:
            topic = await self._catalog.topic(tenant_id, topic_name, refresh=stale)
        except MetadataError as error:
            raise problem_of_lookup(error, topic_name) from error
        finally:
            self._stale.discard((tenant_id, topic_name))
        return topic

    def publish_nowait(
        self, routes: TopicRoutes, share: Share, message: Message, durability: Durability
    ) -> Parcel:
        """Accepts one message, or raises a Problem; the outcome is in the parcel's future."""
        key = message.key if message.key is not None else message.idempotency_key
        size_bytes = message_bytes(message)
        share.reserve(size_bytes, 1)
        parcel = self._parcel([message], size_bytes, key is not None, durability, share)
        if key is None:
            lane = routes.unkeyed(1, size_bytes, share.held_messages)
        else:
            lane = routes.keyed(key)
        lane.add(parcel)
        return parcel

    def publish_many_nowait(
        self, routes: TopicRoutes, share: Share, messages: Sequence[Message], durability: Durability
    ) -> list[tuple[Parcel, Sequence[int]]]:
        """Accepts all or raises a Problem; each parcel comes with the indices of its messages.

        The keyed messages of one partition are one parcel, so that none of a key is stored when
        an earlier one is not.
        """
        sizes = [message_bytes(message) for message in messages]
        share.reserve(sum(sizes), len(messages))
        runs: list[list[int]] = []
        keyed: dict[int, list[int]] = {}
        run: list[int] = []
        run_bytes = 0
        partitions = len(routes.lanes)
        for index, message in enumerate(messages):
            key = routing_key(message)
            if key is not None:
                keyed.setdefault(partition_of(key, partitions), []).append(index)
                continue
            if run_bytes + sizes[index] > MAX_RUN_BYTES and run:
                runs.append(run)
                run, run_bytes = [], 0
            run.append(index)
            run_bytes += sizes[index]
        if run:
            runs.append(run)

        parcels: list[tuple[Parcel, Sequence[int]]] = []
        for indices in runs:
            parcel = self._parcel_of(messages, sizes, indices, False, durability, share)
            lane = routes.unkeyed(len(indices), parcel.size_bytes, share.held_messages)
            lane.add(parcel)
            parcels.append((parcel, indices))
        for partition, indices in keyed.items():
            parcel = self._parcel_of(messages, sizes, indices, True, durability, share)
            routes.lanes[partition].add(parcel)
            parcels.append((parcel, indices))
        return parcels

    async def publish(
        self,
        tenant_id: bytes,
        topic_name: str,
        message: Message,
        durability: Durability = Durability.QUORUM,
    ) -> Placed | str:
        """Where it is stored, or its publish id (leader, none). Raises a Problem.

        Cancelling it leaves an accepted message on its way: the outcome is unknown to the caller.
        """
        routes = await self.routes_of(tenant_id, topic_name)
        parcel = self.publish_nowait(routes, self.budget.share(tenant_id), message, durability)
        outcome = await parcel.future if parcel.future is not None else None
        if isinstance(outcome, Problem):
            raise outcome
        return parcel.publish_id or _placed(outcome)

    async def publish_batch(
        self,
        tenant_id: bytes,
        topic_name: str,
        messages: Sequence[Message],
        durability: Durability = Durability.QUORUM,
    ) -> list[Placed | Problem | str]:
        """Per message, in order, what `publish` returns or raises; of a parcel stored together,
        the offset of the message itself. Raises a Problem when nothing was accepted."""
        routes = await self.routes_of(tenant_id, topic_name)
        share = self.budget.share(tenant_id)
        results: list[Placed | Problem | str] = [""] * len(messages)
        for parcel, indices in self.publish_many_nowait(routes, share, messages, durability):
            outcome = await parcel.future if parcel.future is not None else None
            for position, index in enumerate(indices):
                if isinstance(outcome, Problem):
                    results[index] = outcome
                elif parcel.publish_id:
                    results[index] = f"{parcel.publish_id}-{position}"
                else:
                    placed = _placed(outcome)
                    results[index] = placed._replace(base_offset=placed.base_offset + position)
        return results

    def _parcel_of(
        self,
        messages: Sequence[Message],
        sizes: Sequence[int],
        indices: Sequence[int],
        pinned: bool,
        durability: Durability,
        share: Share,
    ) -> Parcel:
        if len(indices) == len(messages):
            return self._parcel(list(messages), sum(sizes), pinned, durability, share)
        chosen = [messages[index] for index in indices]
        size_bytes = sum(sizes[index] for index in indices)
        return self._parcel(chosen, size_bytes, pinned, durability, share)

    def _parcel(
        self,
        messages: list[Message],
        size_bytes: int,
        pinned: bool,
        durability: Durability,
        share: Share,
    ) -> Parcel:
        loop = self._loop
        future: asyncio.Future[Outcome] | None = None
        publish_id = ""
        if durability is not Durability.NONE:
            future = loop.create_future()
        if durability in EARLY:
            publish_id = f"{self._incarnation}-{next(self._publish_ids)}"
        deadline_s = loop.time() + self.settings.timeout_s
        return Parcel(
            messages, size_bytes, pinned, durability, deadline_s, share, future, publish_id
        )

    def _open(self, topic: Topic, before: TopicRoutes | None) -> TopicRoutes:
        """The lanes of a topic seen first or changed; queues that are the same keep their lane,
        and with it the order of what is under way."""
        if len(self._routes) >= self.settings.max_cached_topics:
            self._evict()
        kept: dict[QueueId, Lane] = {}
        if before is not None:
            kept = {_queue(before.topic, at): lane for at, lane in enumerate(before.lanes)}
        routes = TopicRoutes(topic, self.settings, self._store.has_leader)
        for at in range(len(topic.partitions)):
            queue = _queue(topic, at)
            lane = kept.pop(queue, None)
            if lane is None:
                lane = self._lane(topic, at, queue)
            lane.reroute = routes.reroute
            routes.lanes.append(lane)
        if any(not lane.idle for lane in kept.values()):
            assert before is not None
            before.lanes = list(kept.values())
            self._retired = [old for old in self._retired if not old.idle] + [before]
        self._routes[topic.uid] = routes
        return routes

    def _lane(self, topic: Topic, at: int, queue: QueueId) -> Lane:
        partition = topic.partitions[at]
        return Lane(
            partition.number,
            partition.group,
            self._store.appender(partition.group, queue),
            ReceiptWriter(topic.uid, topic.name, partition.number, partition.lane),
            self.settings,
            self.metrics,
            on_waiting=self._wait,
            on_lasting=partial(self._lasting, topic),
        )

    def _lanes(self) -> Iterable[Lane]:
        for routes in (*self._routes.values(), *self._retired):
            yield from routes.lanes

    def _evict(self) -> None:
        """The oldest idle topics go, a tenth at a time; busy ones stay, the budget bounds them."""
        idle = (uid for uid, routes in self._routes.items() if routes.idle)
        for uid in list(itertools.islice(idle, max(1, self.settings.max_cached_topics // 10))):
            del self._routes[uid]

    def _lasting(self, topic: Topic, error: StoreError) -> None:
        """The store no longer takes appends for this queue: read the topic again."""
        if not is_of_topic(error):
            return
        if len(self._stale) < self.settings.max_cached_topics:
            self._stale.add((topic.tenant_id, topic.name))

    def _wait(self, lane: Lane) -> None:
        lane.waiting = True
        self._waiting.add(lane)
        if self._sweep_handle is None:
            self._sweep_handle = self._loop.call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """While anything waits behind an append: let nothing wait where it need not."""
        self._sweep_handle = None
        now_s = self._loop.time()
        for lane in list(self._waiting):
            if lane.idle:
                lane.waiting = False
                self._waiting.discard(lane)
            else:
                lane.sweep(now_s, self._store.has_leader(lane.group))
        if self._waiting and self._sweep_handle is None:
            self._sweep_handle = self._loop.call_later(SWEEP_S, self._sweep)


def _queue(topic: Topic, at: int) -> QueueId:
    partition = topic.partitions[at]
    return QueueId(topic.uid, partition.number, partition.lane, partition.generation)


def _placed(outcome: Placed | None) -> Placed:
    assert outcome is not None
    return outcome
