"""A forwarder on a real Postgres; the store is the one of the unit tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from metadata.catalog import Catalog
from metadata.database import Database
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.leases import LeaseRepository
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.subscriptions.seeks import LaneOf, Target
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.topics import TopicRepository
from metadata.types import CursorState, Subscription, SubscriptionSpec, Topic, TopicSpec
from outbox import Outbox
from store_nodes.queue_id import QueueId
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.unit.subscribe_forwarder.subscribe_support import (
    ACK_KEY,
    Consumer,
    FakeQueue,
    FakeStore,
)


@dataclass
class Site:
    """A topic and a subscription in Postgres, and a store that outlives forwarders."""

    database: Database
    tenant_id: bytes
    topic: Topic
    subscription: Subscription
    store: FakeStore

    @classmethod
    async def open(cls, database: Database, partitions: int = 1, **spec: Any) -> Site:
        tenant_id = new_uid()
        await TenantRepository(database).ensure(tenant_id, f"tenant-{tenant_id.hex()}")
        topics = TopicRepository(database)
        made = await topics.create(tenant_id, TopicSpec("orders"), range(partitions))
        topic = await topics.activate(tenant_id, made.uid)
        store = FakeStore(topic.uid)
        for number in range(partitions):
            store.queues[QueueId(topic.uid, number)] = FakeQueue()
        subscription = await subscribe(database, topic, "reader", **spec)
        return cls(database, tenant_id, topic, subscription, store)

    async def rows(self) -> tuple[CursorState, ...]:
        cursors = CursorRepository(self.database)
        return await cursors.of_subscription(self.tenant_id, self.subscription.uid)

    async def row(self) -> CursorState:
        (row,) = await self.rows()
        return row

    @asynccontextmanager
    async def forwarder(
        self,
        database: Database | None = None,
        *,
        wait: bool = True,
        outbox: Outbox | None = None,
        **settings: Any,
    ) -> AsyncIterator[Consumer]:
        """Yield another forwarder of this site; it is closed cleanly unless the test killed it."""
        database = database or self.database
        feed = ChangeFeed(database, poll_every_s=0.2)
        catalog = Catalog(TopicRepository(database), SubscriptionRepository(database), feed)
        forwarder = SubscribeForwarder(
            store=self.store,
            catalog=catalog,
            feed=feed,
            cursors=CursorRepository(database),
            assignments=AssignmentRepository(database),
            leases=LeaseRepository(database),
            forwarded=ForwardedRepository(database),
            ack_key=ACK_KEY,
            settings=SubscribeSettings(**({"drain_s": 2.0} | settings)),
            outbox=outbox,
        )
        await feed.start()
        await forwarder.start()
        consumer = Consumer(forwarder, self.tenant_id)
        try:
            if wait:
                async with asyncio.timeout(15):
                    await consumer.ready()
            yield consumer
        finally:
            await forwarder.close()
            await feed.close()


async def subscribe(
    database: Database,
    topic: Topic,
    name: str,
    *,
    floors: Mapping[LaneOf, int | Target] | None = None,
    **spec: Any,
) -> Subscription:
    return await SubscriptionRepository(database).create(
        topic.tenant_id, topic.uid, SubscriptionSpec(name, **spec), floors or {}
    )


async def kill(consumer: Consumer) -> None:
    """As SIGKILL would: nothing is flushed, nothing released."""
    forwarder = consumer.forwarder
    fleet = forwarder._fleet
    tasks = [fleet.lease._task, fleet.claims._task, forwarder.flusher._task]
    for task in tasks:
        assert task is not None
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)  # type: ignore[arg-type]
    fleet.lease.lease = None
