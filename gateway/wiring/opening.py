"""The real parts of a server process, opened in order and closed in reverse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from auth.development import DEV_TENANT_ID, DEV_TENANT_NAME
from edge.asgi import Route
from edge.lifetime import own
from edge.load import MachineLoad
from edge.process_pool import ProcessPool
from edge.sealing import Sealer
from edge.tracing import Tracer
from gateway.breakers import GroupBreakers, MetadataBreaker
from gateway.configuration.settings import Role, ServerSettings
from gateway.egress_rules import EgressRules
from gateway.middleware.outcomes import with_outcome
from gateway.readiness import LeaderCheck, Readiness
from gateway.recovery.keeper import EraKeeper
from gateway.store_disks import StoreDisks
from gateway.telemetry.requests import traced
from gateway.tenancy.auditor import Auditor
from gateway.wiring.admission import open_admission
from gateway.wiring.control import open_control
from gateway.wiring.identity import open_identity
from gateway.wiring.parts import Parts, Shared
from gateway.wiring.publishing import open_publishing
from gateway.wiring.quotas import open_quotas
from gateway.wiring.scheduling import open_scheduling
from gateway.wiring.subscribing import open_subscribing
from gateway.write_limit import WriteLimit
from metadata.catalog import Catalog
from metadata.database import Database
from metadata.eras import HistoryCheck
from metadata.errors import MetadataError
from metadata.feed import ChangeFeed
from metadata.postgres import database_schema
from metadata.postgres.database_schema import UnfitSchema
from metadata.settings import DatabaseSettings
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.audit import AuditLog
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.schema_catalog import SchemaCatalog
from metadata.topics.schemas import SchemaRepository
from metadata.topics.topics import TopicRepository
from peering.settings import PeerSettings
from peering.tls import PeerTls, open_peer_tls
from store_nodes.client import StoreClient

METADATA_RETRY_S = 0.25
FIRST_COMPARISON_S = 5.0
"""Waited for, before whatever else uses Postgres is started."""
_log = structlog.get_logger("packetboat.server")


@asynccontextmanager
async def open_parts(settings: ServerSettings, tracer: Tracer | None) -> AsyncIterator[Parts]:
    """Never fails because Postgres or the store is down: readiness says so until they are up.
    Raises UnfitSchema where Postgres answers that this release can't use the database."""
    parts = Parts(load=MachineLoad(target_lag_s=settings.max_loop_lag_s))
    async with AsyncExitStack() as stack:
        check, database_settings = HistoryCheck(), DatabaseSettings.from_environment()
        database = Database(database_settings, check.check, MetadataBreaker())
        await database.connect()
        stack.push_async_callback(database.close)
        own(stack, lambda: _greet_metadata(database, parts.readiness), "greeting of Postgres")
        tls = open_peer_tls(PeerSettings.from_environment())
        if tls is not None:
            own(stack, tls.watch)
        breakers = GroupBreakers()
        store = await _open_store(settings, tls, breakers, stack)
        history = store
        if settings.role.subscribes:
            history = await _open_store(settings, tls, breakers, stack, at_first_use=True)
        leaders = LeaderCheck(range(settings.store_groups), store.has_leader)
        parts.readiness.add("store", leaders)
        disks = StoreDisks(store)
        own(stack, disks.run)
        parts.readiness.add_warning("disk", disks.warning)

        eras = EraKeeper(database_settings, store, check)
        own(stack, eras.run)
        only_publishes = settings.role is Role.PUBLISH
        parts.readiness.add(
            "era", eras.never_compared_reason if only_publishes else eras.not_ready_reason
        )
        await eras.until_compared(FIRST_COMPARISON_S)
        await _check_schema(database)

        feed = ChangeFeed(database, history=check)
        rules = _egress_rules(settings, database)
        feed.add_listener(rules.on_changes)
        metered = open_quotas(settings.role, database, feed, stack)
        parts.quotas, parts.usage = metered.limiter, metered.meter
        topics = TopicRepository(database, metered.defaults)
        subscriptions = SubscriptionRepository(database, metered.defaults)
        schemas = SchemaRepository(database, metered.defaults)
        shared = Shared(
            settings=settings,
            parts=parts,
            stack=stack,
            database=database,
            store=store,
            history=history,
            peer_tls=tls,
            feed=feed,
            catalog=Catalog(topics, subscriptions, feed),
            topics=topics,
            subscriptions=subscriptions,
            schemas=schemas,
            schema_catalog=SchemaCatalog(schemas, feed),
            snapshots=SnapshotRepository(database),
            egress=rules,
            sealer=Sealer.from_text(settings.seal_keys) if settings.seal_keys else None,
            identity=open_identity(settings, database, feed, rules.guard_of, stack),
            metered=metered,
            process_pool=_process_pool(stack),
            tracer=tracer,
        )
        parts.verifier = shared.identity.verifier
        parts.readiness.add("signing_keys", shared.identity.tokens.keys.not_ready_reason)
        parts.admission = open_admission(shared)
        await feed.start()
        stack.push_async_callback(feed.close)
        if settings.role.controls:
            open_control(shared)
        if settings.role.publishes:
            open_publishing(shared)
        if settings.role.subscribes:
            await open_subscribing(shared)
        if settings.role.schedules:
            await open_scheduling(shared)
        per_second = settings.control_writes_per_second
        parts.routes[:] = _observed(parts.routes, Auditor(AuditLog(database)), tracer, per_second)
        yield parts


def _observed(
    routes: list[Route], auditor: Auditor, tracer: Tracer | None, per_second: float
) -> list[Route]:
    """Return the routes as they are served.

    Changes say their outcome, have the audit around them and take turns; then all have spans.
    """
    turns = WriteLimit(per_second)
    audited = [
        turns.around(changing) if (changing := auditor.audited(route)) is not route else route
        for route in map(with_outcome, routes)
    ]
    return audited if tracer is None else [traced(tracer, route) for route in audited]


async def _open_store(
    settings: ServerSettings,
    tls: PeerTls | None,
    breakers: GroupBreakers,
    stack: AsyncExitStack,
    *,
    at_first_use: bool = False,
) -> StoreClient:
    assert settings.store_secret is not None
    store = StoreClient(
        settings.store_nodes,
        groups=range(settings.store_groups),
        secret=settings.store_secret,
        tls=tls,
        guard_of=breakers.of,
    )
    await store.start(at_first_use=at_first_use)
    stack.push_async_callback(store.close)
    return store


def _process_pool(stack: AsyncExitStack) -> ProcessPool:
    process_pool = ProcessPool()
    stack.push_async_callback(process_pool.close)
    return process_pool


async def _check_schema(database: Database) -> None:
    try:
        await database_schema.check(database, FIRST_COMPARISON_S)
    except UnfitSchema:
        raise
    except MetadataError:
        _log.info("the schema is looked at later")


def _egress_rules(settings: ServerSettings, database: Database) -> EgressRules:
    return EgressRules(
        TenantRepository(database),
        settings.egress_allowed,
        settings.egress_ports,
        development=settings.dev_egress_allowed,
    )


async def _greet_metadata(database: Database, readiness: Readiness) -> None:
    """Wait until Postgres has answered once: until then, this process is not ready; after
    that, P6 holds.
    """
    reason: list[str | None] = ["not asked yet"]
    readiness.add("metadata", lambda: reason[0])
    while True:
        try:
            await database.check()
            await database_schema.check(database)
            await TenantRepository(database).ensure(DEV_TENANT_ID, DEV_TENANT_NAME)
        except MetadataError as error:
            reason[0] = f"{error.code}: {error}"
            await asyncio.sleep(METADATA_RETRY_S)
        else:
            reason[0] = None
            return
