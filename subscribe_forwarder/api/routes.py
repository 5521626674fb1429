"""The consume operations as plain ASGI handlers: what the gateway mounts.

Problems are raised; the dispatcher answers them.
"""

from __future__ import annotations

from edge.asgi import Route
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.preview import PreviewRoutes
from subscribe_forwarder.api.pulls import Pulls
from subscribe_forwarder.api.reconciliation import Reconciliation
from subscribe_forwarder.api.replay import ReplayRoutes
from subscribe_forwarder.api.status import Fates
from subscribe_forwarder.api.stream import Streams
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.api.views import Views
from subscribe_forwarder.forwarder import SubscribeForwarder


def routes(forwarder: SubscribeForwarder, fates: Fates, task_acks: TaskAcks) -> list[Route]:
    """What the gateway mounts."""
    pulls, acks, views = Pulls(forwarder), Acks(forwarder, task_acks), Views(forwarder, fates)
    streams = Streams(forwarder)
    return [
        Route("GET", "/subscriptions/{name}/messages", pulls.get, "consume"),
        Route("GET", "/topics/{topic}/subscriptions/{name}/messages", pulls.get, "consume"),
        Route("GET", "/subscriptions/{name}/messages:stream", streams.get, "consume"),
        Route(
            "GET", "/topics/{topic}/subscriptions/{name}/messages:stream", streams.get, "consume"
        ),
        Route("POST", "/subscriptions/{name}:pull", pulls.post, "consume"),
        Route("POST", "/subscriptions/{name}/ack", acks.ack, "consume"),
        Route("POST", "/subscriptions/{name}/nack", acks.nack, "consume"),
        Route("POST", "/subscriptions/{name}/reject", acks.reject, "consume"),
        Route("POST", "/subscriptions/{name}/release", acks.release, "consume"),
        Route("POST", "/subscriptions/{name}/modify_ack_deadline", acks.modify, "consume"),
        Route("GET", "/subscriptions/{name}/backlog", views.backlog, "read"),
        Route("GET", "/topics/{topic}/messages/{id}", views.message, "read"),
        Route("GET", "/topics/{topic}/messages/{id}/ack", views.ack_states, "read"),
        *Reconciliation(forwarder).routes(),
        *ReplayRoutes(forwarder).routes(),
        *PreviewRoutes(forwarder).routes(),
    ]
