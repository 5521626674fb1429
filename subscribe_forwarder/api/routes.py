"""The consume operations as plain ASGI handlers, for the gateway to mount.

A handler serves an operation wherever the partitions of the subscription are owned: from what is
owned here, if that is all of it (`Routing.served_here`), or else by asking the owners. Its part
that acts on what is owned here is served to peers too. Handlers raise problems; the dispatcher
answers them.
"""

from __future__ import annotations

from edge.asgi import Route
from metadata.delivery.ack_history import AckHistoryRepository
from openapi import consume, subscriptions, topics
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.preview import PreviewRoutes
from subscribe_forwarder.api.pulls import Pulls, PullsHere
from subscribe_forwarder.api.reconciliation import Reconciliation
from subscribe_forwarder.api.replay import ReplayRoutes
from subscribe_forwarder.api.stream import Streams
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.api.views import PushStatusOf, Views
from subscribe_forwarder.fleet.proxy.attending import Attending
from subscribe_forwarder.fleet.proxy.routing import Routing
from subscribe_forwarder.forwarder import SubscribeForwarder


def routes(
    forwarder: SubscribeForwarder,
    history: AckHistoryRepository,
    acks: Acks,
    routing: Routing,
    trace: DeliveryRecorder | None = None,
    *,
    push_status: PushStatusOf = lambda _: None,
) -> list[Route]:
    """Return the routes for the gateway to mount; called once per process that has links.

    `push_status` returns the state of a push subscription here; None where nothing is pushed.
    """
    views = Views(forwarder, history, push_status, routing)
    attending = Attending(routing, forwarder.open_hub)
    pull = Pulls(PullsHere(forwarder, trace), routing, attending)
    stream = Streams(forwarder, routing, attending, trace)
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
