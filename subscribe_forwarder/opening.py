"""The door of the subscribe forwarder: the function by which the gateway opens it.

It makes the parts in order, from those below to the routes, and closes them in reverse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from edge.asgi import Handler, Route, Scope
from edge.lifetime import own
from edge.load import MachineLoad
from edge.problem import Problem
from edge.process_pool import ProcessPool
from edge.quota import Quotas, Usage
from edge.sealing import Sealer
from edge.tracing import Tracer
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
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.subscriptions.flows import SubscriptionFlowRepository
from metadata.subscriptions.names import SubscriptionNames
from metadata.subscriptions.push_attempts import PushAttemptRepository
from metadata.subscriptions.push_endpoints import PushEndpointRepository
from metadata.subscriptions.redrives import RedriveRepository
from metadata.subscriptions.seeks import SeekRepository
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.states import SubscriptionStateRepository
from metadata.tenancy.tenants import TenantRepository
from outbox import Outbox
from outbox.staging import Staging
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls
from store_nodes.client import StoreClient
from subscribe_forwarder import settings
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.backlog_selection import Selector
from subscribe_forwarder.api.backlogs import BacklogRoutes
from subscribe_forwarder.api.dead_letters import DeadLetters
from subscribe_forwarder.api.flow import FlowRoutes
from subscribe_forwarder.api.parked import ParkedKeys
from subscribe_forwarder.api.positions import PositionRoutes
from subscribe_forwarder.api.push import PushRoutes
from subscribe_forwarder.api.redrives import Redrives
from subscribe_forwarder.api.routes import routes
from subscribe_forwarder.api.spans import DeliverySpans
from subscribe_forwarder.api.task_acks import Outputs, TaskAcks
from subscribe_forwarder.api.trace import DeliveryRecorder, DeliveryTrace
from subscribe_forwarder.delivery.publishing import AckPublisher
from subscribe_forwarder.delivery.throttling.flows import FlowReports
from subscribe_forwarder.delivery.throttling.machine import MachineThrottle
from subscribe_forwarder.delivery.throttling.throttling import Throttling
from subscribe_forwarder.fleet.backlogs import exchange
from subscribe_forwarder.fleet.backlogs.backlogs import Backlogs
from subscribe_forwarder.fleet.backlogs.local import Holdings
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.fleet.proxy import attending
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.push.attempts import AttemptLog
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.engine import Means
from subscribe_forwarder.push.events import EndpointEvents
from subscribe_forwarder.push.late import LateAcks
from subscribe_forwarder.push.pushers import GRACE_S, Pushers
from subscribe_forwarder.push.replaying import Replaying
from subscribe_forwarder.push.requests import EndpointTokens, Requests
from subscribe_forwarder.push.sender import Rules, Sender
from subscribe_forwarder.push.spans import PushSpans
from subscribe_forwarder.undelivered import find_undelivered

LINK_GRACE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The parts of a server process that the forwarder stands on, and settings of the process."""

    database: Database
    store: StoreClient
    history: StoreClient
    """A client for large answers that no message waits for."""
    catalog: Catalog
    feed: ChangeFeed
    outputs: Outputs
    """Reads the messages that an ack publishes."""
    process_pool: ProcessPool
    load: MachineLoad
    limits: Quotas
    usage: Usage
    egress: Rules
    sealer: Sealer | None
    endpoint_tokens: EndpointTokens
    tracer: Tracer | None
    """The tracer; None turns spans off."""
    problem_of: Callable[[Exception], Problem | None]
    """Returns the Problem to tell a peer for the exception of a handler, None for a defect."""
    around_peers: Callable[[Handler], Handler] | None
    """Makes the handler that serves peers from each handler; None: the handler itself."""
    peer_tls: PeerTls | None
    ack_key: SharedSecret
    link_host: str
    link_port: int
    link_advertise: str
    """`host:port` or `host` for the other forwarders; empty: `link_host`."""
    weight: float
    egress_proxy: str
    """Empty: requests to endpoints take no proxy."""
    trace_file: Path | None


class OpenForwarder(NamedTuple):
    """A subscribe forwarder as the process around it sees it."""

    routes: list[Route]
    drain: Callable[[], None]
    """Long-polls answer now with what they have; nothing new is delivered or pushed."""
    not_ready_reason: Callable[[], str | None]
    find_subscription: Callable[[Scope], Awaitable[object]]
    """Raises NotFound where the caller's tenant has no subscription of the name in the path."""


async def open_subscribe_forwarder(stack: AsyncExitStack, process: Process) -> OpenForwarder:
    """Open the subscribe forwarder of a process until `stack` is closed.

    Call it on the loop that serves requests. Raises ValueError for a wrong setting, and OSError
    where the address for links is not available.
    """
    database = process.database
    links, address = await _open_links(stack, process)
    load = process.load
    machine = MachineThrottle()
    load.add_listener(lambda took_s: machine.tick(took_s, load.overloaded))
    flows = SubscriptionFlowRepository(database)
    book = FlowReports(flows, links)
    process.feed.add_listener(book.on_changes)
    book.start()
    stack.push_async_callback(book.close)
    forwarder = _make_forwarder(process, links, address, Throttling(machine, book.of))
    book.add_listener(forwarder.wake)
    await forwarder.start()
    stack.push_async_callback(forwarder.close)
    backlogs = _open_backlogs(stack, forwarder)
    routing = forwarder.make_routing(backlogs.most_backlog_first)
    acks = Acks(forwarder, _open_task_acks(stack, process, forwarder), routing)
    letters = DeadLetterRepository(database)
    dead_letter_writer = forwarder.dead_letter_writer
    assert dead_letter_writer is not None
    own(
        stack,
        lambda: find_undelivered(letters, forwarder, dead_letter_writer),
        "search for undelivered messages",
    )
    pushers, push_routes = _open_pushing(stack, process, forwarder, acks)
    selector = Selector(process.catalog, SubscriptionNames(database))
    most = forwarder.settings.max_backlog_streams
    backlog_routes = BacklogRoutes(backlogs, selector, process.feed, most)
    served = FlowRoutes(process.catalog, flows, book).routes()
    served += routes(
        forwarder,
        AckHistoryRepository(database),
        acks,
        routing,
        _open_trace(stack, process),
        push_status=pushers.status,
    )
    served += PositionRoutes(
        forwarder,
        SeekRepository(database),
        SnapshotRepository(database),
        SubscriptionStateRepository(database),
    ).routes()
    served += DeadLetters(process.catalog, process.store, letters).routes()
    served += Redrives(process.catalog, letters, RedriveRepository(database)).routes()
    served += ParkedKeys(forwarder, dead_letter_writer, routing).routes()

    def drain() -> None:
        pushers.drain()
        forwarder.drain()
        routing.drain()
        backlog_routes.drain()

    return OpenForwarder(
        routes=[*served, *push_routes.routes(), *backlog_routes.routes()],
        drain=drain,
        not_ready_reason=forwarder.not_ready_reason,
        find_subscription=routing.subscription,
    )


def advertised(host: str, listening_port: int, advertise: str) -> str:
    """Return the address of links to advertise, as `host:port`.

    `advertise` names `host`, `host:port` or nothing; then it is the `host` that listens.
    """
    named = advertise or host
    if named.startswith("["):
        return named if "]:" in named else f"{named}:{listening_port}"
    if named.count(":") == 1:
        return named
    return f"[{named}]:{listening_port}" if ":" in named else f"{named}:{listening_port}"


async def _open_links(stack: AsyncExitStack, process: Process) -> tuple[LinkNetwork, str]:
    """Return links that listen, and their address for the other forwarders."""
    links = LinkNetwork(
        process.ack_key,
        problem_of=process.problem_of,
        lossy=(exchange.SUBJECT, attending.SUBJECT),
        tls=process.peer_tls,
        around=process.around_peers,
    )
    port = await links.start(process.link_host, process.link_port)
    stack.push_async_callback(links.close, LINK_GRACE_S)
    return links, advertised(process.link_host, port, process.link_advertise)


def _make_forwarder(
    process: Process, links: LinkNetwork, address: str, throttling: Throttling
) -> SubscribeForwarder:
    database = process.database
    return SubscribeForwarder(
        store=process.store,
        history=process.history,
        catalog=process.catalog,
        feed=process.feed,
        cursors=CursorRepository(database),
        assignments=AssignmentRepository(database),
        leases=LeaseRepository(database),
        forwarded=ForwardedRepository(database),
        ack_key=process.ack_key,
        settings=settings.load(),
        address=address,
        weight=process.weight,
        links=links,
        hints=HintRepository(database),
        throttling=throttling,
        levels=process.limits,
        usage=process.usage,
        process_pool=process.process_pool,
        outbox=Outbox(process.store),
        load=process.load,
    )


def _open_task_acks(
    stack: AsyncExitStack, process: Process, forwarder: SubscribeForwarder
) -> TaskAcks:
    publisher = AckPublisher(
        Staging(process.store),
        PublicationRepository(process.database),
        forwarder.flusher,
        quotas=process.limits,
        usage=process.usage,
    )
    stack.push_async_callback(publisher.close)
    return TaskAcks(publisher, process.outputs)


def _open_trace(stack: AsyncExitStack, process: Process) -> DeliveryRecorder | None:
    told = None
    if process.trace_file is not None:
        told = DeliveryTrace(process.trace_file)
        stack.callback(told.close)
    return told if process.tracer is None else DeliverySpans(process.tracer, told)


def _open_pushing(
    stack: AsyncExitStack, process: Process, forwarder: SubscribeForwarder, acks: Acks
) -> tuple[Pushers, PushRoutes]:
    """Open pushes, which end before the forwarder does: pushes in progress are acked where
    possible.
    """
    database = process.database
    sender = Sender(process.egress, proxy=process.egress_proxy or None)
    stack.push_async_callback(sender.close)
    late = LateAcks(acks.ack.handle, acks.release.handle)
    stack.push_async_callback(late.close, GRACE_S)
    attempts = PushAttemptRepository(database)
    log = AttemptLog(attempts)
    log.start()
    stack.push_async_callback(log.close)
    requests = Requests(process.sealer, process.endpoint_tokens)
    means = Means(
        forwarder,
        Endpoints(process.limits),
        requests,
        sender,
        log,
        late.pass_on,
        usage=process.usage,
        spans=None if process.tracer is None else PushSpans(process.tracer),
    )
    endpoints = PushEndpointRepository(database)
    outbox = Outbox(process.store)
    events = EndpointEvents(endpoints, process.catalog, outbox)
    inactive = TenantRepository(database).inactive
    pushers = Pushers(forwarder, endpoints, means, requests, events, inactive=inactive)
    process.feed.add_listener(pushers.on_changes)
    pushers.start()
    stack.push_async_callback(pushers.close)
    replaying = Replaying(forwarder, outbox)
    return pushers, PushRoutes(process.catalog, attempts, endpoints, pushers, means, replaying)


def _open_backlogs(stack: AsyncExitStack, forwarder: SubscribeForwarder) -> Backlogs:
    """Open the backlogs that forwarders tell each other."""
    holdings = Holdings(forwarder.owners.get, forwarder.open_hub, forwarder.cursors)
    backlogs = Backlogs(holdings, forwarder.listeners, forwarder.links, forwarder.look_for)
    backlogs.start()
    stack.push_async_callback(backlogs.close)
    return backlogs
