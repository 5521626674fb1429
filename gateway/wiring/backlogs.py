"""Backlogs told among subscribe forwarders, and streamed to programs that scale workers by them."""

from __future__ import annotations

from gateway.wiring.parts import Shared
from metadata.subscriptions.names import SubscriptionNames
from subscribe_forwarder.backlogs.backlogs import Backlogs
from subscribe_forwarder.backlogs.local import OwnHoldings
from subscribe_forwarder.backlogs.routes import BacklogRoutes
from subscribe_forwarder.backlogs.selection import Selector
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.links.ports import Links


def open_backlogs(shared: Shared, subscriber: SubscribeForwarder, links: Links | None) -> Backlogs:
    """Return started backlogs, which are closed with the parts."""
    holdings = OwnHoldings(subscriber.owners.get, subscriber.open_hub, subscriber.cursors)
    backlogs = Backlogs(holdings, subscriber.news, links, subscriber.look_for)
    backlogs.start()
    shared.stack.push_async_callback(backlogs.close)
    selector = Selector(shared.catalog, SubscriptionNames(shared.database))
    most = subscriber.settings.max_backlog_streams
    routes = BacklogRoutes(backlogs, selector, shared.feed, most)
    shared.parts.drains.append(routes.drain)
    shared.parts.routes += routes.routes()
    return backlogs
