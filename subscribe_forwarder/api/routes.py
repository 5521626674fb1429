"""The consume operations as plain ASGI handlers, for the gateway to mount.

Each operation on a subscription has an owner proxy (fronts/), which serves it wherever its
partitions are owned. The local handler behind it serves the partitions that are owned here, to
peers too. Handlers raise problems; the dispatcher answers them.
"""

from __future__ import annotations

from edge.asgi import Route
from openapi import consume, subscriptions, topics
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.preview import PreviewRoutes
from subscribe_forwarder.api.pulls import Pulls
from subscribe_forwarder.api.reconciliation import Reconciliation
from subscribe_forwarder.api.replay import ReplayRoutes
from subscribe_forwarder.api.status import Fates
from subscribe_forwarder.api.stream import Streams
from subscribe_forwarder.api.trace import HandOuts
from subscribe_forwarder.api.views import PushStatusOf, Views
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.fronts import pulls as pull_fronts
from subscribe_forwarder.fronts.attending import Attending
from subscribe_forwarder.fronts.pulls import PullFront
from subscribe_forwarder.fronts.routing import Routing
from subscribe_forwarder.fronts.stream_part import ServedParts
from subscribe_forwarder.fronts.streams import StreamFront


def routes(
    forwarder: SubscribeForwarder,
    fates: Fates,
    acks: Acks,
    routing: Routing,
    trace: HandOuts | None = None,
    *,
    push_status: PushStatusOf = lambda _: None,
) -> list[Route]:
    """Return the routes for the gateway to mount; called once per process that has links.

    `push_status` returns the state of a push subscription here; None where nothing is pushed.
    """
    views = Views(forwarder, fates, push_status, routing)
    pulls, streams = Pulls(forwarder, trace), Streams(forwarder, trace)
    attending = Attending(forwarder, routing)
    pull = PullFront(pulls, routing, attending)
    stream = StreamFront(streams, routing, attending)
    routing.serve(pull_fronts.OPERATION, pulls.get)
    if routing.links is not None:
        ServedParts(streams).serve(routing.links)
    return [
        Route(consume.OPERATIONS["pull"], pull.get),
        Route(consume.OPERATIONS["pullTopicSubscription"], pull.get),
        Route(consume.OPERATIONS["stream"], stream.get),
        Route(consume.OPERATIONS["streamTopicSubscription"], stream.get),
        Route(consume.OPERATIONS["pullPost"], pull.post),
        *acks.routes(),
        Route(subscriptions.OPERATIONS["getBacklog"], views.backlog),
        Route(topics.OPERATIONS["getMessage"], views.message),
        Route(topics.OPERATIONS["getMessageAck"], views.ack_states),
        *Reconciliation(forwarder).routes(),
        *ReplayRoutes(forwarder).routes(),
        *PreviewRoutes(forwarder).routes(),
    ]
