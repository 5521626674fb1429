"""Opens pushes to endpoints, in a process that subscribes."""

from __future__ import annotations

from gateway.wiring.parts import Shared
from metadata.subscriptions.push_attempts import PushAttemptRepository
from metadata.subscriptions.push_endpoints import PushEndpointRepository
from metadata.tenancy.tenants import TenantRepository
from outbox import Outbox
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.push import PushRoutes
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.fronts.acks import AckFront
from subscribe_forwarder.fronts.routing import Routing
from subscribe_forwarder.push.attempts import AttemptLog
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.engine import Means
from subscribe_forwarder.push.events import EndpointEvents
from subscribe_forwarder.push.late import LateAcks
from subscribe_forwarder.push.pushers import GRACE_S, Pushers
from subscribe_forwarder.push.replaying import Replaying
from subscribe_forwarder.push.requests import Requests
from subscribe_forwarder.push.sender import Sender
from subscribe_forwarder.push.spans import PushSpans


def open_pushing(
    shared: Shared, subscriber: SubscribeForwarder, routing: Routing, task_acks: TaskAcks
) -> None:
    """Open pushes, which end before the forwarder does: pushes in progress are acked where
    possible.
    """
    parts, stack = shared.parts, shared.stack
    sender = Sender(shared.egress, proxy=shared.settings.egress_proxy or None)
    stack.push_async_callback(sender.close)
    actions = {one.operation.id: one for one in Acks(subscriber, task_acks).actions}
    ack, release = (
        AckFront(actions[name], routing, subscriber).handle for name in ("ack", "release")
    )
    late = LateAcks(ack, release)
    stack.push_async_callback(late.close, GRACE_S)
    attempts = PushAttemptRepository(shared.database)
    log = AttemptLog(attempts)
    log.start()
    stack.push_async_callback(log.close)
    requests = Requests(shared.sealer, shared.identity.tokens.push)
    metered = shared.metered
    endpoints_here = Endpoints(metered.limiter)
    means = Means(
        subscriber,
        endpoints_here,
        requests,
        sender,
        log,
        late.pass_on,
        usage=metered.meter,
        spans=None if shared.tracer is None else PushSpans(shared.tracer),
    )
    endpoints = PushEndpointRepository(shared.database)
    inactive = TenantRepository(shared.database).inactive
    outbox = Outbox(shared.store)
    events = EndpointEvents(endpoints, shared.catalog, outbox)
    pushers = Pushers(subscriber, endpoints, means, requests, events, inactive=inactive)
    subscriber.push_status = pushers.status
    shared.feed.add_listener(pushers.on_changes)
    pushers.start()
    stack.push_async_callback(pushers.close)
    parts.drains.insert(0, pushers.drain)
    replaying = Replaying(subscriber, outbox)
    parts.routes += PushRoutes(
        shared.catalog, attempts, endpoints, pushers, means, replaying
    ).routes()
