"""One process's worth of the real parts over real store nodes and Postgres, and load upon it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from edge.problem import Problem
from gateway.topics.group_choice import GroupChoice
from gateway.topics.lifecycle import TopicLifecycle
from gateway.topics.partitions import PartitionRoutes
from gateway.topics.placement import Mover
from harness.cluster import ChaosCluster
from metadata.catalog import Catalog
from metadata.database import Database
from metadata.delivery.ack_history import AckHistoryRepository
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.leases import LeaseRepository
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.placements import PlacementRepository
from metadata.topics.topics import TopicRepository
from metadata.types import SubscriptionSpec, Topic, TopicSpec
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.outcomes import StoredRange
from store_nodes.client import StoreClient
from store_nodes.record_batch import Message
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.unit.subscribe_forwarder.subscribe_support import ACK_KEY, Consumer

TOPIC = TopicSpec("orders")
RATE = 500
KEYS = 8


class Site:
    """The parts of one server process, without HTTP, for one tenant."""

    def __init__(self, database: Database, store: StoreClient) -> None:
        self.database = database
        self.store = store
        self.tenant_id = new_uid()
        self.topics = TopicRepository(database)
        self.subscriptions = SubscriptionRepository(database)
        self.placements = PlacementRepository(database)
        self.cursors = CursorRepository(database)
        self.feed = ChangeFeed(database)
        self.catalog = Catalog(self.topics, self.subscriptions, self.feed)
        self.choice = GroupChoice(store)
        self.lifecycle = TopicLifecycle(
            self.topics, self.catalog, self.placements, store, self.choice
        )
        self.mover = Mover(self.placements, store, self.choice)
        self.publisher = PublishForwarder(self.catalog, store, registry=None)
        self.history = AckHistoryRepository(database)
        self.consumer = Consumer(self._subscriber(), self.tenant_id, self.history)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        nodes: ChaosCluster,
        database: Database,
        partitions: int = 2,
        spec: TopicSpec = TOPIC,
    ) -> AsyncIterator[Site]:
        """Yield a site with a topic `orders` and its subscription `reader`."""
        async with AsyncExitStack() as stack:
            store = nodes.store_client()
            await store.start()
            stack.push_async_callback(store.close)
            await store.wait_ready(60)
            site = cls(database, store)
            await TenantRepository(database).ensure(site.tenant_id, site.tenant_id.hex())
            await site.feed.start()
            stack.push_async_callback(site.feed.close)
            stack.push_async_callback(site.publisher.close)
            await site.consumer.forwarder.start()
            stack.push_async_callback(site.consumer.forwarder.close)
            topic = await site.lifecycle.create(site.tenant_id, spec, partitions)
            await site.subscriptions.create(
                site.tenant_id,
                topic.uid,
                SubscriptionSpec("reader", ack_deadline_s=600),
                {},
            )
            async with asyncio.timeout(30):
                await site.consumer.ready()
            yield site

    def _subscriber(self) -> SubscribeForwarder:
        return SubscribeForwarder(
            store=self.store,
            catalog=self.catalog,
            feed=self.feed,
            cursors=self.cursors,
            assignments=AssignmentRepository(self.database),
            leases=LeaseRepository(self.database),
            forwarded=ForwardedRepository(self.database),
            ack_key=ACK_KEY,
            settings=SubscribeSettings(drain_s=2.0, lazy_flush_s=0.05),
        )

    async def topic(self) -> Topic:
        """Return the topic as Postgres has it now."""
        return await self.topics.get(self.tenant_id, "orders")

    async def other_group(self, partition: int = 0) -> int:
        """Return a group other than the partition's."""
        now = (await self.topic()).partitions[partition].group
        return next(group for group in self.store.groups if group != now)

    async def repaired(self) -> Topic:
        """Return the topic once another process has finished all unfinished changes."""
        mover = Mover(self.placements, self.store, self.choice, self.feed.version)
        repair = asyncio.create_task(mover.repair())
        try:
            async with asyncio.timeout(60):
                while await self.placements.unfinished():
                    await asyncio.sleep(0.05)
        finally:
            repair.cancel()
            await asyncio.gather(repair, return_exceptions=True)
        return await self.topic()

    @property
    def partitions(self) -> PartitionRoutes:
        return PartitionRoutes(self.topics, self.placements, self.store, self.mover)


class Load:
    """Keyed and unkeyed publishes at a steady rate, and a consumer that acks what it gets.

    Each key has one publisher, which sends its numbers one after the other and goes on to the next
    only when the last is stored.
    """

    def __init__(self, site: Site, rate: int = RATE) -> None:
        self._site = site
        self._pause_s = 2 * KEYS / rate
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.published: dict[tuple[int, int], tuple[str, int]] = {}
        self.failures: dict[str, list[str]] = {"keyed": [], "unkeyed": []}
        self.delivered: list[dict[str, Any]] = []
        self.acked = 0
        """Messages whose acks were answered."""
        self.slowest_s = 0.0

    async def __aenter__(self) -> Load:
        for number in range(KEYS):
            self._tasks.append(asyncio.create_task(self._publish(f"k{number}", f"k{number}")))
            self._tasks.append(asyncio.create_task(self._publish(None, f"u{number}")))
        self._consuming = asyncio.create_task(self._consume())
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._stopping.set()
        await asyncio.gather(*self._tasks, return_exceptions=kind is not None)
        if kind is None:
            async with asyncio.timeout(60):
                while self.acked < len(self.published):
                    await asyncio.sleep(0.05)
        self._consuming.cancel()
        await asyncio.gather(self._consuming, return_exceptions=True)

    async def _publish(self, key: str | None, name: str) -> None:
        loop = asyncio.get_running_loop()
        number = 0
        while not self._stopping.is_set():
            message = Message(f"{name}/{number}".encode(), "text/plain", key=key)
            began_s = loop.time()
            try:
                placed = await self._site.publisher.publish(self._site.tenant_id, "orders", message)
            except Problem as problem:
                self.failures["unkeyed" if key is None else "keyed"].append(str(problem))
            else:
                assert isinstance(placed, StoredRange)
                self.published[placed.partition, placed.base_offset] = name, number
                number += 1
            self.slowest_s = max(self.slowest_s, loop.time() - began_s)
            await asyncio.sleep(max(0.0, began_s + self._pause_s - loop.time()))

    async def _consume(self) -> None:
        consumer = self._site.consumer
        while True:
            answer = await consumer.pull(100, wait_s=1)
            if answer.status != 200:
                await asyncio.sleep(0.05)
                continue
            messages = answer.json()["messages"]
            self.delivered += messages
            if messages:
                acked = await consumer.ack(*messages)
                assert acked.json()["acked"] == len(messages), acked.json()
                self.acked += len(messages)

    async def check(self) -> None:
        """Every message that was stored came once, each key's in order, and the books balance."""
        ids = [m["message_id"] for m in self.delivered]
        assert len(ids) == len(set(ids)), "nothing is handed out twice while its lease lasts"
        found = {(m["partition"], m["offset"]): m["data"] for m in self.delivered}
        assert found == {at: f"{name}/{number}" for at, (name, number) in self.published.items()}
        for name in {name for name, _ in self.published.values()}:
            numbers = [number for other, number in self.published.values() if other == name]
            assert sorted(numbers) == list(range(len(numbers)))
        seen: dict[str, int] = {}
        for message in self.delivered:
            name, number = message["data"].split("/")
            if message["key"] is not None:
                assert int(number) == seen.get(name, -1) + 1, f"{name} after {seen.get(name)}"
                seen[name] = int(number)
        assert await self._site.cursors.unbalanced() == []
        topic = await self._site.topic()
        rows = await self._site.cursors.of_topic(self._site.tenant_id, topic.uid)
        assert sum(row.counters.acked for row in rows) == len(ids)
        assert {row.pending() for row in rows} == {0}
        assert len(rows) == len(topic.partitions)


class Killed(BaseException):
    """The process ends here."""


class DyingStore:
    """A store client whose process dies before, or right after, its n-th command."""

    def __init__(self, store: StoreClient, step: int, *, after: bool) -> None:
        self._store = store
        self._left = step
        self._after = after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._dying(found) if name in ("create", "seal", "delete") else found

    def _dying(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def die(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            last = not self._left
            if self._left < 0:
                await asyncio.sleep(3600)  # of a dead process nothing more is heard
            if last and not self._after:
                raise Killed
            result = await call(*arguments, **options)
            if last:
                raise Killed
            return result

        return die


async def until_dead(work: Awaitable[object]) -> bool:
    """Return True if the work was killed, False if it came to its end."""
    try:
        async with asyncio.timeout(30):
            await work
    except (Killed, BaseExceptionGroup) as error:
        if isinstance(error, BaseExceptionGroup):
            killed, rest = error.split(Killed)
            assert killed is not None
            assert rest is None
        return True
    return False
