"""The real parts of a server process, opened in order and closed in reverse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from auth.development import DEV_TENANT_ID, DEV_TENANT_NAME, DevTokenVerifier
from auth.errors import TokenRefused
from auth.principal import Principal
from auth.verifier import TokenVerifier
from edge.asgi import Route
from gateway.group_choice import GroupChoice
from gateway.partitions import PartitionRoutes
from gateway.placement import Mover
from gateway.readiness import LeaderCheck, Readiness
from gateway.schedules import ScheduleRoutes
from gateway.schemas import SchemaRoutes
from gateway.settings import ServerSettings
from gateway.skip_rules import SkipRuleRoutes
from gateway.snapshots import SnapshotRoutes
from gateway.snapshots import sweep as sweep_snapshots
from gateway.subscriptions import SubscriptionRoutes
from gateway.topic_lifecycle import TopicLifecycle
from gateway.topics import TopicRoutes
from metadata.ack_history import AckHistoryRepository
from metadata.assignments import AssignmentRepository
from metadata.catalog import Catalog
from metadata.cursors import CursorRepository
from metadata.database import Database
from metadata.dead_letters import DeadLetterRepository
from metadata.errors import MetadataError
from metadata.feed import ChangeFeed
from metadata.forwarded import ForwardedRepository
from metadata.leases import LeaseRepository
from metadata.placements import PlacementRepository
from metadata.publications import PublicationRepository
from metadata.redrives import RedriveRepository
from metadata.schedules import ScheduleRepository
from metadata.schema_catalog import SchemaCatalog
from metadata.schemas import SchemaRepository
from metadata.seeks import SeekRepository
from metadata.settings import DatabaseSettings
from metadata.skip_rules import SkipRuleRepository
from metadata.snapshots import SnapshotRepository
from metadata.subscription_states import SubscriptionStateRepository
from metadata.subscriptions import SubscriptionRepository
from metadata.tenants import TenantRepository
from metadata.topics import TopicRepository
from outbox import Outbox
from outbox.staging import Staging
from publish_forwarder import routes as publish_routes
from publish_forwarder import settings as publish_settings
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.outputs import OutputReader
from publish_forwarder.schema_check import SchemaCheck
from scheduler import settings as scheduler_settings
from scheduler.service import Scheduler
from store_nodes.client import StoreClient
from subscribe_forwarder import settings as subscribe_settings
from subscribe_forwarder.api import routes as subscribe_routes
from subscribe_forwarder.api.dead_letters import DeadLetters
from subscribe_forwarder.api.parked import ParkedKeys
from subscribe_forwarder.api.positions import PositionRoutes
from subscribe_forwarder.api.redrives import Redrives
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.delivery.publishing import AckPublisher
from subscribe_forwarder.delivery.undelivered import find_undelivered
from subscribe_forwarder.delivery.undertaker import Undertaker
from subscribe_forwarder.forwarder import SubscribeForwarder

METADATA_RETRY_S = 0.25
_log = structlog.get_logger("packetboat.server")


@dataclass(slots=True)
class Parts:
    """What the application is composed of."""

    verifier: TokenVerifier
    readiness: Readiness = field(default_factory=Readiness)
    routes: list[Route] = field(default_factory=list)
    drains: list[Callable[[], None]] = field(default_factory=list)

    def drain(self) -> None:
        """Long-polls answer now with what they have; nothing new is handed out."""
        for drain in self.drains:
            drain()


class NoTokens:
    """Where no way to check tokens is configured, none is valid."""

    async def verify(self, token: bytes) -> Principal:
        raise TokenRefused


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the roles of a process share."""

    settings: ServerSettings
    parts: Parts
    stack: AsyncExitStack
    database: Database
    store: StoreClient
    feed: ChangeFeed
    catalog: Catalog
    topics: TopicRepository
    subscriptions: SubscriptionRepository
    schemas: SchemaRepository
    schema_catalog: SchemaCatalog
    snapshots: SnapshotRepository


@asynccontextmanager
async def open_parts(settings: ServerSettings) -> AsyncIterator[Parts]:
    """Never fails because Postgres or the store is down: readiness says so until they are up."""
    token_sha256 = settings.dev_token_sha256
    parts = Parts(DevTokenVerifier(token_sha256) if token_sha256 else NoTokens())
    async with AsyncExitStack() as stack:
        database = Database(DatabaseSettings.from_environment())
        await database.connect()
        stack.push_async_callback(database.close)
        _own(stack, _greet_metadata(database, parts.readiness))
        store = StoreClient(
            settings.store_nodes, groups=range(settings.store_groups), secret=settings.store_secret
        )
        await store.start()
        stack.push_async_callback(store.close)
        leaders = LeaderCheck(range(settings.store_groups), store.has_leader)
        parts.readiness.add("store", leaders)

        feed = ChangeFeed(database)
        topics, subscriptions = TopicRepository(database), SubscriptionRepository(database)
        schemas = SchemaRepository(database)
        shared = _Shared(
            settings=settings,
            parts=parts,
            stack=stack,
            database=database,
            store=store,
            feed=feed,
            catalog=Catalog(topics, subscriptions, feed),
            topics=topics,
            subscriptions=subscriptions,
            schemas=schemas,
            schema_catalog=SchemaCatalog(schemas, feed),
            snapshots=SnapshotRepository(database),
        )
        await feed.start()
        stack.push_async_callback(feed.close)
        if settings.role.controls:
            _control(shared)
        if settings.role.publishes:
            await _publish(shared)
        if settings.role.subscribes:
            await _subscribe(shared)
        if settings.role.schedules:
            await _schedule(shared)
        yield parts


def _control(shared: _Shared) -> None:
    """Topics, subscriptions and what belongs to them, as people and programs change them."""
    parts, stack = shared.parts, shared.stack
    choice, placements = GroupChoice(shared.store), PlacementRepository(shared.database)
    lifecycle = TopicLifecycle(shared.topics, placements, shared.store, choice)
    _own(stack, lifecycle.repair())
    mover = Mover(placements, shared.store, choice)
    _own(stack, mover.repair())
    parts.routes += TopicRoutes(
        shared.topics,
        lifecycle,
        shared.subscriptions,
        CursorRepository(shared.database),
        shared.store,
    ).routes()
    parts.routes += PartitionRoutes(shared.topics, placements, shared.store, mover).routes()
    parts.routes += SchemaRoutes(shared.schemas, shared.catalog, shared.store).routes()
    parts.routes += ScheduleRoutes(
        ScheduleRepository(shared.database),
        shared.catalog,
        Outbox(shared.store),
        SchemaCheck(shared.schema_catalog),
    ).routes()
    parts.routes += SkipRuleRoutes(
        SkipRuleRepository(shared.database), shared.subscriptions, CursorRepository(shared.database)
    ).routes()
    parts.routes += SubscriptionRoutes(
        shared.catalog,
        shared.subscriptions,
        CursorRepository(shared.database),
        shared.store,
        shared.snapshots,
    ).routes()
    parts.routes += SnapshotRoutes(shared.snapshots).routes()
    _own(stack, sweep_snapshots(shared.snapshots))


async def _publish(shared: _Shared) -> None:
    """Messages on their way in."""
    parts, stack = shared.parts, shared.stack
    forwarded = ForwardedRepository(shared.database)
    publisher = PublishForwarder(
        shared.catalog,
        shared.store,
        publish_settings.load(),
        forwarded=forwarded,
        schemas=shared.schema_catalog,
    )
    await publisher.start()
    stack.push_async_callback(publisher.close)
    parts.routes += publish_routes.routes(publisher)


async def _subscribe(shared: _Shared) -> None:
    """Messages on their way out, and what is left of those that were given up."""
    settings, parts, stack = shared.settings, shared.parts, shared.stack
    subscriber = SubscribeForwarder(
        store=shared.store,
        catalog=shared.catalog,
        feed=shared.feed,
        cursors=CursorRepository(shared.database),
        assignments=AssignmentRepository(shared.database),
        leases=LeaseRepository(shared.database),
        forwarded=ForwardedRepository(shared.database),
        ack_key=settings.ack_secret,
        settings=subscribe_settings.load(),
        address=f"{settings.host}:{settings.port}",
    )
    undertaker = Undertaker(
        Outbox(shared.store), shared.catalog, shared.store, subscriber.flusher.note
    )
    subscriber.undertaker = undertaker.bury
    await subscriber.start()
    stack.push_async_callback(subscriber.close)
    stack.push_async_callback(undertaker.close)
    parts.readiness.add("subscribe", subscriber.not_ready_reason)
    parts.drains.append(subscriber.drain)
    task_acks = TaskAcks(
        AckPublisher(
            Staging(shared.store), PublicationRepository(shared.database), subscriber.flusher
        ),
        OutputReader(shared.catalog, shared.schema_catalog),
    )
    parts.routes += subscribe_routes.routes(
        subscriber, AckHistoryRepository(shared.database), task_acks
    )
    parts.routes += PositionRoutes(
        subscriber,
        SeekRepository(shared.database),
        shared.snapshots,
        SubscriptionStateRepository(shared.database),
    ).routes()
    letters, redrives = DeadLetterRepository(shared.database), RedriveRepository(shared.database)
    _own(stack, find_undelivered(letters, subscriber, undertaker))
    parts.routes += DeadLetters(shared.catalog, shared.store, letters).routes()
    parts.routes += Redrives(shared.catalog, letters, redrives).routes()
    parts.routes += ParkedKeys(subscriber, undertaker).routes()


async def _schedule(shared: _Shared) -> None:
    """What runs once in the installation."""
    settings, stack = shared.settings, shared.stack
    scheduler = Scheduler(
        store=shared.store,
        database=shared.database,
        feed=shared.feed,
        settings=scheduler_settings.load(),
        tenant_bytes=settings.tenant_stored_bytes,
    )
    await scheduler.start()
    stack.push_async_callback(scheduler.close)


async def _greet_metadata(database: Database, readiness: Readiness) -> None:
    """Until Postgres has answered once, this process is not ready; after that, P6 holds."""
    reason: list[str | None] = ["not asked yet"]
    readiness.add("metadata", lambda: reason[0])
    while True:
        try:
            await database.check()
            await TenantRepository(database).ensure(DEV_TENANT_ID, DEV_TENANT_NAME)
        except MetadataError as error:
            reason[0] = f"{error.code}: {error}"
            await asyncio.sleep(METADATA_RETRY_S)
        else:
            reason[0] = None
            return


def _own(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
    """A task that lives as long as the parts do."""
    task = asyncio.ensure_future(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
