"""The throttling of deliveries: by the load of this process, and by flows that consumers report."""

from __future__ import annotations

from typing import NamedTuple

from gateway.wiring.parts import Shared
from metadata.subscriptions.flows import SubscriptionFlowRepository
from subscribe_forwarder.api.flow import FlowRoutes
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.links.ports import Links
from subscribe_forwarder.throttling.flows import FlowBook
from subscribe_forwarder.throttling.machine import MachineThrottle
from subscribe_forwarder.throttling.throttling import Throttling


class OpenThrottling(NamedTuple):
    throttling: Throttling
    book: FlowBook


def open_throttling(shared: Shared, links: Links | None) -> OpenThrottling:
    """Return throttling that follows the load and the flows until the parts are closed."""
    load = shared.parts.load
    machine = MachineThrottle()
    load.add_listener(lambda took_s: machine.tick(took_s, load.overloaded))
    flows = SubscriptionFlowRepository(shared.database)
    book = FlowBook(flows, links)
    shared.feed.add_listener(book.on_changes)
    book.start()
    shared.stack.push_async_callback(book.close)
    shared.parts.routes += FlowRoutes(shared.catalog, flows, book).routes()
    return OpenThrottling(Throttling(machine, book.of), book)


def follow(opened: OpenThrottling, subscriber: SubscribeForwarder) -> None:
    """Wake waiting consumers when a change allows more."""
    opened.book.changed = subscriber.wake
