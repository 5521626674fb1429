"""The subscribe role's parts."""

from __future__ import annotations

import time

from gateway.stream_tickets import StreamTickets
from gateway.wiring.backlogs import open_backlogs
from gateway.wiring.links import open_links
from gateway.wiring.parts import Shared, own
from gateway.wiring.pushing import open_pushing
from gateway.wiring.throttling import follow, open_throttling
from metadata.delivery.ack_history import AckHistoryRepository
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.leases import LeaseRepository
from metadata.delivery.publications import PublicationRepository
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.subscriptions.redrives import RedriveRepository
from metadata.subscriptions.seeks import SeekRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from outbox import Outbox
from outbox.staging import Staging
from publish_forwarder.opening import open_output_reader
from subscribe_forwarder import settings as subscribe_settings
from subscribe_forwarder.api import routes as subscribe_routes
from subscribe_forwarder.api.dead_letters import DeadLetters
from subscribe_forwarder.api.parked import ParkedKeys
from subscribe_forwarder.api.positions import PositionRoutes
from subscribe_forwarder.api.redrives import Redrives
from subscribe_forwarder.api.spans import HandOutSpans
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.api.trace import HandOuts, HandOutTrace
from subscribe_forwarder.delivery.publishing import AckPublisher
from subscribe_forwarder.delivery.undelivered import find_undelivered
from subscribe_forwarder.delivery.undertaker import Undertaker
from subscribe_forwarder.fleet.load import LoadReporter
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.fronts.routing import Routing
from subscribe_forwarder.fronts.views import parked_routes


async def open_subscribing(shared: Shared) -> None:
    """Open the delivery of messages, and the dead letters of those that were given up."""
    settings, parts, stack = shared.settings, shared.parts, shared.stack
    assert settings.ack_secret is not None
    links = await open_links(shared)
    throttled = open_throttling(shared, links.network)
    subscriber = SubscribeForwarder(
        store=shared.store,
        history=shared.history,
        catalog=shared.catalog,
        feed=shared.feed,
        cursors=CursorRepository(shared.database),
        assignments=AssignmentRepository(shared.database),
        leases=LeaseRepository(shared.database),
        forwarded=ForwardedRepository(shared.database),
        ack_key=settings.ack_secret,
        settings=subscribe_settings.load(),
        address=links.address,
        weight=settings.subscribe_weight,
        links=links.network,
        hints=HintRepository(shared.database),
        throttling=throttled.throttling,
        levels=shared.metered.limiter,
        usage=shared.metered.meter,
        workshop=shared.workshop,
    )
    follow(throttled, subscriber)
    load = LoadReporter(
        subscriber.activity,
        units=lambda: len(subscriber.owners),
        waiting_of=lambda uid: hub.waiting if (hub := subscriber.open_hub(uid)) else 0,
    )
    subscriber.load = lambda: load.report(time.monotonic())
    load.start()
    stack.callback(load.close)
    subscriber.late_s = lambda: parts.load.loop_lag_s
    undertaker = Undertaker(
        Outbox(shared.store), shared.catalog, shared.store, subscriber.flusher.note
    )
    subscriber.undertaker = undertaker.bury
    await subscriber.start()
    stack.push_async_callback(subscriber.close)
    if subscriber.apart is not None:
        stack.callback(subscriber.apart.close)
    stack.push_async_callback(undertaker.close)
    parts.readiness.add("subscribe", subscriber.not_ready_reason)
    routing = Routing.of(subscriber)
    parts.drains += [subscriber.drain, routing.drain]
    task_acks = _task_acks(shared, subscriber)
    parts.routes += subscribe_routes.routes(
        subscriber,
        AckHistoryRepository(shared.database),
        task_acks,
        routing,
        _open_trace(shared),
    )
    sealer = shared.sealer if settings.stream_tickets else None
    parts.tickets = StreamTickets(sealer, routing.subscription)
    parts.routes += parts.tickets.routes()
    parts.routes += PositionRoutes(
        subscriber,
        SeekRepository(shared.database),
        shared.snapshots,
        SubscriptionStateRepository(shared.database),
    ).routes()
    letters, redrives = DeadLetterRepository(shared.database), RedriveRepository(shared.database)
    own(stack, find_undelivered(letters, subscriber, undertaker))
    parts.routes += DeadLetters(shared.catalog, shared.store, letters).routes()
    parts.routes += Redrives(shared.catalog, letters, redrives).routes()
    parts.routes += parked_routes(ParkedKeys(subscriber, undertaker), routing)
    open_pushing(shared, subscriber, routing, task_acks)
    backlogs = open_backlogs(shared, subscriber, links.network)
    routing.order = backlogs.most_backlog_first


def _task_acks(shared: Shared, subscriber: SubscribeForwarder) -> TaskAcks:
    publisher = AckPublisher(
        Staging(shared.store),
        PublicationRepository(shared.database),
        subscriber.flusher,
        quotas=shared.metered.limiter,
        usage=shared.metered.meter,
    )
    shared.stack.push_async_callback(publisher.close)
    reader = open_output_reader(shared.catalog, shared.schema_catalog, shared.workshop)
    return TaskAcks(publisher, reader)


def _open_trace(shared: Shared) -> HandOuts | None:
    path, told = shared.settings.subscribe_trace_file, None
    if path is not None:
        told = HandOutTrace(path)
        shared.stack.callback(told.close)
    return told if shared.tracer is None else HandOutSpans(shared.tracer, told)
