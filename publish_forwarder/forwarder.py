"""Accepts messages and makes them durable: topic → partition → batch → log → receipt.

The `durability` decides what must be done before a publish is answered:

    quorum, all   201 after the store says so, with message id and offset
    leader        202 with a publish id once the leader has it (with an id: once a majority has)
    none          202 with a publish id at once

A publish is accepted when its memory is reserved and its append request is in a queue sender. From
then on it goes to the store, whatever happens to the HTTP request that brought it. Before that,
nothing is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import REGISTRY, CollectorRegistry

from appending.chunks import MESSAGE_OVERHEAD_BYTES, message_bytes
from edge.problem import Problem
from edge.process_pool import ProcessPool
from edge.quota import (
    NO_LIMITS,
    PUBLISHED_BYTES,
    PUBLISHED_MESSAGES,
    Quotas,
    Usage,
    rate_limited,
)
from metadata.catalog import Catalog
from metadata.delivery.forwarded import ForwardedRepository
from metadata.errors import MetadataError
from metadata.topics.schema_catalog import SchemaCatalog
from metadata.types import Topic
from publish_forwarder.accepting import EARLY, Acceptor, Request
from publish_forwarder.append_request import AppendRequest, Sink
from publish_forwarder.budget import Budget, Share
from publish_forwarder.delays import Delay
from publish_forwarder.failures import problem_of_lookup, stopping
from publish_forwarder.idempotency import Producer
from publish_forwarder.metrics import PublishMetrics
from publish_forwarder.moves import Moves, kept_senders
from publish_forwarder.outcomes import Outcome, Single, Stored, each
from publish_forwarder.partitioner import TopicSender
from publish_forwarder.router import TopicRoutes
from publish_forwarder.scheduled import ScheduledMessages
from publish_forwarder.settings import PublishSettings
from publish_forwarder.topic_senders import TopicSenders
from schemas.message_check import SchemaCheck
from store_nodes.client import StoreClient
from store_nodes.record_batch import Message
from store_nodes.wire import Durability

_ONLY = (0,)
"""The place of the message of a publish of one."""


class PublishForwarder:
    """The publish forwarder of a process; make and close it on the loop that serves requests."""

    def __init__(
        self,
        catalog: Catalog,
        store: StoreClient,
        settings: PublishSettings | None = None,
        *,
        forwarded: ForwardedRepository | None = None,
        schemas: SchemaCatalog | None = None,
        process_pool: ProcessPool | None = None,
        admits: Callable[[int], bool] = lambda _: True,
        weight_of: Callable[[bytes], float] = lambda _: 1.0,
        quotas: Quotas = NO_LIMITS,
        usage: Usage = NO_LIMITS,
        registry: CollectorRegistry | None = REGISTRY,
    ) -> None:
        """Open a publish forwarder.

        `admits` is asked whether one more message may wait for a group that has not answered for a
        moment. `weight_of` returns a tenant's part where several tenants wait for one group.
        `quotas` are asked before anything is accepted; `usage` counts the stored messages.
        `process_pool` runs long work on bodies and schemas.
        """
        self.settings = settings or PublishSettings()
        self.budget = Budget(self.settings)
        self.metrics = PublishMetrics(self.budget, lambda: len(self._routes))
        self.scheduled = ScheduledMessages(catalog, store, forwarded)
        self.schemas = SchemaCheck(schemas, process_pool, self._charge)
        self.process_pool = process_pool
        self._catalog = catalog
        self._store = store
        self.quotas = quotas
        self._usage = usage
        self._registry = registry
        self._routes: dict[bytes, TopicRoutes] = {}
        self._moves = Moves(self._routes, catalog, self._open)
        self._senders = TopicSenders(
            store,
            self.settings,
            self.metrics,
            self._routes,
            self._moves,
            admits=admits,
            weight_of=weight_of,
            stored=self._stored,
            changed=self._changed,
        )
        self._stale: set[tuple[bytes, str]] = set()
        self._incarnation = os.urandom(8).hex()
        self._publish_ids = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._acceptor = Acceptor(
            self.settings.timeout_s, self._next_publish_id, self._routes.get, self._take
        )
        self._accepting = True
        if registry is not None:
            registry.register(self.metrics)

    async def close(self) -> None:
        """Refuse new publishes, wait for accepted ones, and fail those that are left with their
        true outcome.
        """
        if not self._accepting:
            return
        self._accepting = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_s):
                await self.budget.until_idle()
        await self._moves.close()
        for routes in list(self._routes.values()):
            for sender in list(routes.all_senders()):
                sender.stop()
        self._senders.sweep.close()
        if self._registry is not None:
            self._registry.unregister(self.metrics)

    async def routes_of(self, tenant_id: bytes, topic_name: str) -> TopicRoutes:
        """Return the routes of a topic; raise the Problem that refuses publishes to it.

        It awaits nothing for a cached topic.
        """
        routes = self.routes_now(tenant_id, topic_name)
        if routes is None:
            routes = self._routes_to(await self._look_up(tenant_id, topic_name))
        return routes

    def routes_now(self, tenant_id: bytes, topic_name: str) -> TopicRoutes | None:
        """Return the routes of a topic that is known here, None for one that must be looked up.

        Raises the Problem that refuses publishes to it.
        """
        topic = self._catalog.cached_topic(tenant_id, topic_name)
        if topic is None or (self._stale and (tenant_id, topic_name) in self._stale):
            return None
        return self._routes_to(topic)

    def _routes_to(self, topic: Topic) -> TopicRoutes:
        routes = self._routes.get(topic.uid)
        if routes is None or routes.topic is not topic:
            routes = self._open(topic, routes)
        if not self._accepting:
            raise stopping()
        if routes.refusal is not None:
            raise routes.refusal
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
        self,
        routes: TopicRoutes,
        share: Share,
        message: Message,
        durability: Durability,
        delay: Delay | None = None,
        sink: Sink | None = None,
    ) -> AppendRequest:
        """Accept one message into a queue sender, or raise a Problem.

        The outcome goes to `sink`, for a message without a delay; without one, to the future of the
        returned append request.
        """
        size_bytes = message_bytes(message)
        share.reserve(size_bytes, 1)
        self._take(routes, share, size_bytes, 1)
        if delay is not None:
            request = Request(routes, share, durability, {0: delay})
            return self._acceptor.one(request, message, size_bytes)
        key, idempotency_key = message.key, message.idempotency_key
        pinned = key is not None or idempotency_key is not None
        append_request = self._append_request(message, size_bytes, pinned, durability, share, sink)
        if idempotency_key is not None:
            self._acceptor.once(routes, append_request, idempotency_key)
            return append_request
        partitioner = routes.by_priority[message.priority]
        if key is None:
            sender = partitioner.unkeyed(1, size_bytes, share.held_messages)
        else:
            sender = partitioner.keyed(key)
        sender.add(append_request)
        return append_request

    def publish_many_nowait(
        self,
        routes: TopicRoutes,
        share: Share,
        messages: Sequence[Message],
        durability: Durability,
        delays: Mapping[int, Delay] | None = None,
        producer: Producer | None = None,
    ) -> list[tuple[AppendRequest, Sequence[int]]]:
        """Accept all messages or raise a Problem; return each append request with its messages'
        indices.

        `delays` are by index.
        """
        request = Request(routes, share, durability, delays, producer)
        return self._acceptor.many(request, messages)

    async def publish(
        self,
        tenant_id: bytes,
        topic_name: str,
        message: Message,
        durability: Durability = Durability.QUORUM,
        delay: Delay | None = None,
    ) -> Stored | str:
        """Publish a message; return its place, or its publish id (leader, none).

        Raises a Problem.

        If the caller is cancelled, an accepted message stays on its way: its outcome is unknown to
        the caller.
        """
        routes = await self.routes_of(tenant_id, topic_name)
        share = self.budget.share(tenant_id)
        append_request = self.publish_nowait(routes, share, message, durability, delay)
        outcome = await append_request.future if append_request.future is not None else None
        if isinstance(outcome, Problem):
            raise outcome
        return append_request.publish_id or _stored(outcome)

    async def publish_batch(
        self,
        tenant_id: bytes,
        topic_name: str,
        messages: Sequence[Message],
        durability: Durability = Durability.QUORUM,
        delays: Mapping[int, Delay] | None = None,
        producer: Producer | None = None,
    ) -> list[Single | str]:
        """Publish messages; return for each, in order, the result or the problem of `publish`.

        Raises a Problem if nothing was accepted.
        """
        routes = await self.routes_of(tenant_id, topic_name)
        share = self.budget.share(tenant_id)
        results: list[Single | str] = [""] * len(messages)
        append_requests = self.publish_many_nowait(
            routes, share, messages, durability, delays, producer
        )
        for append_request, indices in append_requests:
            outcome = await append_request.future if append_request.future is not None else None
            singles = each(outcome, len(indices)) if outcome is not None else [None] * len(indices)
            for position, (index, single) in enumerate(zip(indices, singles, strict=True)):
                if isinstance(single, Problem) or not append_request.publish_id:
                    assert single is not None
                    results[index] = single
                else:
                    results[index] = f"{append_request.publish_id}-{position}"
        return results

    def _take(self, routes: TopicRoutes, share: Share, size_bytes: int, messages: int) -> None:
        """Take reserved messages from the tenant's rates; else release them and raise a 429
        Problem.
        """
        texts_bytes = size_bytes - messages * MESSAGE_OVERHEAD_BYTES
        refusal = self.quotas.take_publish(routes.topic.tenant_id, messages, texts_bytes)
        if refusal is not None:
            share.release(size_bytes, messages)
            raise rate_limited(refusal)

    def _charge(self, tenant_id: bytes, messages: int, size_bytes: int) -> None:
        refusal = self.quotas.take_publish(tenant_id, messages, size_bytes)
        if refusal is not None:
            raise rate_limited(refusal)

    def _stored(self, tenant_id: bytes, messages: int, size_bytes: int) -> None:
        """Count stored messages in the tenant's usage."""
        texts_bytes = size_bytes - messages * MESSAGE_OVERHEAD_BYTES
        self._usage.count(tenant_id, PUBLISHED_MESSAGES, messages)
        self._usage.count(tenant_id, PUBLISHED_BYTES, texts_bytes)

    def _append_request(
        self,
        message: Message,
        size_bytes: int,
        pinned: bool,
        durability: Durability,
        share: Share,
        sink: Sink | None,
    ) -> AppendRequest:
        """Return the append request of one message without a delay."""
        loop = self._loop
        future: asyncio.Future[Outcome] | None = None
        publish_id = ""
        if durability in EARLY:
            publish_id = self._next_publish_id()
        if durability is not Durability.NONE:
            future = loop.create_future() if sink is None else None
        else:
            # The caller is answered now; the append is watched like any other.
            durability = Durability.QUORUM
        deadline_s = loop.time() + self.settings.timeout_s
        append_request = AppendRequest(
            [message], size_bytes, pinned, durability, deadline_s, share, future, publish_id
        )
        if sink is not None:
            append_request.sink, append_request.places = sink, _ONLY
        return append_request

    def _next_publish_id(self) -> str:
        return f"{self._incarnation}-{next(self._publish_ids)}"

    def _open(self, topic: Topic, before: TopicRoutes | None) -> TopicRoutes:
        """Open the routes of a topic that is new or has changed.

        Queues that are the same keep their queue sender, and with it the order of the messages
        under way.
        """
        if len(self._routes) >= self.settings.max_cached_topics:
            self._evict()
        routes = TopicRoutes(topic, self.settings, self._store.has_leader, self._senders)
        for partitioner in routes.partitioners:
            kept: dict[int, TopicSender] = {}
            if before is not None:
                old = before.partitioners[partitioner.lane]
                kept, partitioner.staging = kept_senders(old, partitioner)
                partitioner.probes = old.probes
            partitioner.senders = [
                kept.get(at) or self._senders.append_sender(topic, partition)
                for at, partition in enumerate(partitioner.partitions)
            ]
        for sender in routes.all_senders():
            sender.dedup_window_s = topic.dedup_window_s
        self._routes[topic.uid] = routes
        if before is not None:
            self._moves.replaced(before, routes)
        return routes

    def _evict(self) -> None:
        """Drop the oldest idle topics, a tenth at a time; busy ones stay, bounded by the budget."""
        idle = (uid for uid, routes in self._routes.items() if routes.idle)
        for uid in list(itertools.islice(idle, max(1, self.settings.max_cached_topics // 10))):
            del self._routes[uid]

    def _changed(self, topic: Topic) -> None:
        """Read the topic again at its next publish, because the store takes no appends for a queue
        of it.
        """
        if len(self._stale) < self.settings.max_cached_topics:
            self._stale.add((topic.tenant_id, topic.name))


def _stored(outcome: Outcome | None) -> Stored:
    assert isinstance(outcome, Stored)
    return outcome
