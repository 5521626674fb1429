"""Three forwarders with links on a real Postgres and real store nodes, and who owns what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from metadata.catalog import Catalog
from metadata.database import Database
from metadata.delivery.ack_history import AckHistoryRepository
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.leases import LeaseRepository
from metadata.delivery.publications import PublicationRepository
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.locks.locks import LockRepository
from metadata.subscriptions.flows import SubscriptionFlowRepository
from metadata.subscriptions.seeks import SeekRepository
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.topics import TopicRepository
from metadata.types import CursorState, Subscription, SubscriptionSpec, Topic, TopicSpec, Unit
from openapi.push import PushStatus
from outbox import Outbox
from outbox.staging import Staging
from publish_forwarder.outputs import OutputReader
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, encode
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.flow import FlowRoutes
from subscribe_forwarder.api.parked import ParkedKeys
from subscribe_forwarder.api.positions import PositionRoutes
from subscribe_forwarder.api.routes import routes
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.delivery.publishing import AckPublisher
from subscribe_forwarder.delivery.throttling.flows import FlowReports
from subscribe_forwarder.delivery.throttling.machine import MachineThrottle
from subscribe_forwarder.delivery.throttling.throttling import Throttling
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.integration.store_nodes.store_cluster import read_texts
from tests.integration.subscribe_forwarder.forwarder_support import kill
from tests.unit.subscribe_forwarder.fleet_support import eventually
from tests.unit.subscribe_forwarder.subscribe_support import ACK_KEY, Consumer

PATIENCE_S = 20.0
GROUPS = (0, 1, 0)
"""The group of each partition of `orders`."""


class Member(Consumer):
    """A consumer and operator of one forwarder of several."""

    book: FlowReports
    machine: MachineThrottle
    feed: ChangeFeed
    push_status: Callable[[bytes], PushStatus | None]

    def __init__(
        self, forwarder: SubscribeForwarder, network: LinkNetwork, tenant_id: bytes
    ) -> None:
        super().__init__(forwarder, tenant_id)
        self.network = network
        self.push_status = lambda _: None

    async def die(self) -> None:
        """As SIGKILL would: nothing is flushed or released, and all links break."""
        await kill(self)
        await self.network.close(0)

    async def manage(self, action: str, body: object = None) -> dict[str, Any]:
        """Seek, pause and the like; they are to be done."""
        answer = await self.call("POST", f"/subscriptions/{{name}}/{action}", body, name="reader")
        assert answer.status == 200, answer.body
        return dict(answer.json())

    async def everything(self, count: int, at_once: int = 10) -> list[dict[str, Any]]:
        """Pull until there are `count` messages; return them."""
        got: list[dict[str, Any]] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(got) < count:
                got += await self.pulled(at_once, wait_s=2)
        assert len(got) == count
        return got


class LinkedSite:
    """Topics `orders` of three partitions, `outputs` and `graves` of one; the subscription `reader`
    of `orders`; forwarders that share it."""

    def __init__(self, database: Database, client: StoreClient) -> None:
        self.database = database
        self.client = client
        self.tenant_id = new_uid()
        self.topics: dict[str, Topic] = {}
        self.subscription: Subscription
        self.members: list[Member] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database: Database,
        client: StoreClient,
        owners: tuple[int, ...] = (0, 1, 2),
        **spec: Any,
    ) -> AsyncIterator[LinkedSite]:
        """Yield a site; `owners` has, for each partition, the place of its owner in `members`."""
        site = cls(database, client)
        await TenantRepository(database).ensure(site.tenant_id, f"tenant-{site.tenant_id.hex()}")
        await site._make_topic("orders", GROUPS)
        await site._make_topic("outputs", (0,))
        await site._make_topic("graves", (0,))
        site.subscription = await SubscriptionRepository(database).create(
            site.tenant_id,
            site.topics["orders"].uid,
            SubscriptionSpec("reader", **spec),
            {(partition, 0): 0 for partition in range(len(GROUPS))},
        )
        async with AsyncExitStack() as stack:
            for _ in range(max(owners) + 1):
                site.members.append(await site._start(stack))
            await site.spread(*owners)
            yield site

    async def _make_topic(self, name: str, groups: tuple[int, ...]) -> None:
        topics = TopicRepository(self.database)
        made = await topics.create(self.tenant_id, TopicSpec(name), groups)
        for number, group in enumerate(groups):
            await self.client.create(group, QueueId(made.uid, number), 0, b"test")
        self.topics[name] = await topics.activate(self.tenant_id, made.uid)

    async def _start(self, stack: AsyncExitStack) -> Member:
        database = self.database
        feed = ChangeFeed(database, poll_every_s=0.2)
        catalog = Catalog(TopicRepository(database), SubscriptionRepository(database), feed)
        network = LinkNetwork(ACK_KEY)
        port = await network.start("127.0.0.1", 0)
        stack.push_async_callback(network.close, 0.1)
        flows = SubscriptionFlowRepository(database)
        book, machine = FlowReports(flows, network), MachineThrottle()
        feed.add_listener(book.on_changes)
        forwarder = SubscribeForwarder(
            store=self.client,
            catalog=catalog,
            feed=feed,
            cursors=CursorRepository(database),
            assignments=AssignmentRepository(database),
            leases=LeaseRepository(database),
            forwarded=ForwardedRepository(database),
            ack_key=ACK_KEY,
            settings=SubscribeSettings(drain_s=2.0, lazy_flush_s=0.05),
            address=f"127.0.0.1:{port}",
            links=network,
            hints=HintRepository(database),
            throttling=Throttling(machine, book.of),
            outbox=Outbox(self.client),
        )
        book.add_listener(forwarder.wake)
        book.start()
        stack.push_async_callback(book.close)
        member = Member(forwarder, network, self.tenant_id)
        member.book, member.machine, member.feed = book, machine, feed
        member._routes = self._routes(member, catalog)
        member._routes += FlowRoutes(catalog, flows, book).routes()
        await feed.start()
        stack.push_async_callback(feed.close)
        await forwarder.start()
        stack.push_async_callback(forwarder.close)
        async with asyncio.timeout(PATIENCE_S):
            await member.ready()
        return member

    def _routes(self, member: Member, catalog: Catalog) -> list[Any]:
        database, forwarder = self.database, member.forwarder
        dead_letter_writer, history = forwarder.dead_letter_writer, AckHistoryRepository(database)
        assert dead_letter_writer is not None
        routing = forwarder.make_routing()
        publisher = AckPublisher(
            Staging(self.client), PublicationRepository(database), forwarder.flusher
        )
        task_acks = TaskAcks(publisher, OutputReader(catalog, None))
        positions = PositionRoutes(
            forwarder,
            SeekRepository(database),
            SnapshotRepository(database),
            SubscriptionStateRepository(database),
        )
        return [
            *routes(
                forwarder,
                history,
                Acks(forwarder, task_acks, routing),
                routing,
                push_status=lambda uid: member.push_status(uid),
            ),
            *positions.routes(),
            *ParkedKeys(forwarder, dead_letter_writer, routing).routes(),
        ]

    async def spread(self, *owners: int) -> None:
        """Share the partitions out by hints; return when every forwarder knows their owners."""
        locks = LockRepository(self.database)
        lock = await locks.take("scheduler", new_uid())
        assert lock is not None
        orders = self.topics["orders"]
        put = {
            Unit(self.tenant_id, orders.uid, partition): (
                self.members[owner].forwarder.incarnation,
                "test",
            )
            for partition, owner in enumerate(owners)
        }
        await HintRepository(self.database).replace(lock, put)
        await locks.release(lock)
        await eventually(lambda: all(self._known(one, owners) for one in self.members), PATIENCE_S)

    def _known(self, member: Member, owners: tuple[int, ...]) -> bool:
        where = member.forwarder.directory.find(self.subscription, range(len(owners)))
        me = self.members.index(member)
        mine = tuple(number for number, owner in enumerate(owners) if owner == me)
        return where.here == mine and not where.nowhere

    async def publish(self, partition: int, *texts: str, key: str | None = None) -> None:
        """Publish the texts as one batch."""
        queue = QueueId(self.topics["orders"].uid, partition)
        appender = self.client.appender(GROUPS[partition], queue)
        messages = [Message(text.encode(), "text/plain", key=key) for text in texts]
        await appender.append(encode(messages, 1), len(messages))

    async def publish_to_all(self, *texts: str) -> None:
        """Publish the texts as one batch in each partition."""
        for partition in range(len(GROUPS)):
            await self.publish(partition, *texts)

    async def stored(self, topic: str) -> list[str]:
        return await read_texts(self.client, QueueId(self.topics[topic].uid, 0))

    async def rows(self) -> list[CursorState]:
        """Return the committed rows, by partition."""
        cursors = CursorRepository(self.database)
        rows = await cursors.of_subscription(self.tenant_id, self.subscription.uid)
        return sorted(rows, key=lambda row: row.key.partition)

    async def loaded(self) -> list[CursorState]:
        """Return the cursors with the rows beside them, leases included."""
        orders = self.topics["orders"]
        units = [Unit(self.tenant_id, orders.uid, number) for number in range(len(GROUPS))]
        return await CursorRepository(self.database).load(units)

    async def floors(self) -> list[int]:
        return [row.floor for row in await self.rows()]
