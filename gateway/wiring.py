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

        topics, subscriptions = TopicRepository(database), SubscriptionRepository(database)
        feed = ChangeFeed(database)
        catalog = Catalog(topics, subscriptions, feed)
        schemas = SchemaRepository(database)
        schema_catalog = SchemaCatalog(schemas, feed)
        snapshots = SnapshotRepository(database)
        await feed.start()
        stack.push_async_callback(feed.close)
        if settings.role.controls:
            choice, placements = GroupChoice(store), PlacementRepository(database)
            lifecycle = TopicLifecycle(topics, placements, store, choice)
            _own(stack, lifecycle.repair())
            mover = Mover(placements, store, choice)
            _own(stack, mover.repair())
            parts.routes += TopicRoutes(
                topics, lifecycle, subscriptions, CursorRepository(database), store
            ).routes()
            parts.routes += PartitionRoutes(topics, placements, store, mover).routes()
            parts.routes += SchemaRoutes(schemas, catalog, store).routes()
            parts.routes += ScheduleRoutes(
                ScheduleRepository(database),
                catalog,
                Outbox(store),
                SchemaCheck(schema_catalog),
            ).routes()
            parts.routes += SkipRuleRoutes(
                SkipRuleRepository(database), subscriptions, CursorRepository(database)
            ).routes()
            parts.routes += SubscriptionRoutes(
                catalog, subscriptions, CursorRepository(database), store, snapshots
            ).routes()
            parts.routes += SnapshotRoutes(snapshots).routes()
            _own(stack, sweep_snapshots(snapshots))
        if settings.role.publishes:
            forwarded = ForwardedRepository(database)
            publisher = PublishForwarder(
                catalog,
                store,
                publish_settings.load(),
                forwarded=forwarded,
                schemas=schema_catalog,
            )
            await publisher.start()
            stack.push_async_callback(publisher.close)
            parts.routes += publish_routes.routes(publisher)
        if settings.role.subscribes:
            subscriber = SubscribeForwarder(
                store=store,
                catalog=catalog,
                feed=feed,
                cursors=CursorRepository(database),
                assignments=AssignmentRepository(database),
                leases=LeaseRepository(database),
                forwarded=ForwardedRepository(database),
                ack_key=settings.ack_secret,
                settings=subscribe_settings.load(),
                address=f"{settings.host}:{settings.port}",
            )
            undertaker = Undertaker(Outbox(store), catalog, store, subscriber.flusher.note)
            subscriber.undertaker = undertaker.bury
            await subscriber.start()
            stack.push_async_callback(subscriber.close)
            stack.push_async_callback(undertaker.close)
            parts.readiness.add("subscribe", subscriber.not_ready_reason)
            parts.drains.append(subscriber.drain)
            task_acks = TaskAcks(
                AckPublisher(Staging(store), PublicationRepository(database), subscriber.flusher),
                OutputReader(catalog, SchemaCatalog(schemas, feed)),
            )
            parts.routes += subscribe_routes.routes(
                subscriber, AckHistoryRepository(database), task_acks
            )
            parts.routes += PositionRoutes(
                subscriber,
                SeekRepository(database),
                snapshots,
                SubscriptionStateRepository(database),
            ).routes()
            letters, redrives = DeadLetterRepository(database), RedriveRepository(database)
            _own(stack, find_undelivered(letters, subscriber, undertaker))
            parts.routes += DeadLetters(catalog, store, letters).routes()
            parts.routes += Redrives(catalog, letters, redrives).routes()
            parts.routes += ParkedKeys(subscriber, undertaker).routes()
        if settings.role.schedules:
            scheduler = Scheduler(
                store=store,
                database=database,
                feed=feed,
                settings=scheduler_settings.load(),
                tenant_bytes=settings.tenant_stored_bytes,
            )
            await scheduler.start()
            stack.push_async_callback(scheduler.close)
        yield parts


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
