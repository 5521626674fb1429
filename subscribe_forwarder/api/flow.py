"""Serves `/subscriptions/{name}/flow`: a consumer says how much it can take.

Any forwarder serves it: it writes the row and tells the others.
"""

from __future__ import annotations

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    path_param,
    read_body,
    respond,
    subject_of,
    tenant_of,
)
from edge.bodies import decode
from edge.duplicate_keys import refuse_duplicates
from edge.problem import not_found
from metadata.catalog import Catalog
from metadata.subscriptions.flows import Flow, SubscriptionFlowRepository
from metadata.types import Subscription
from openapi import flow as contract
from subscribe_forwarder.delivery.throttling.flows import FlowReports

MAX_BODY_BYTES = 16 * 1024
NO_STORE = [(b"cache-control", b"no-store")]
_encode = msgspec.json.encode


_FLOW = msgspec.json.Decoder(contract.FlowSpec)


class FlowRoutes:
    """The handlers. They raise Problems, and MetadataError, which the dispatcher answers."""

    def __init__(
        self, catalog: Catalog, flows: SubscriptionFlowRepository, book: FlowReports
    ) -> None:
        self._catalog = catalog
        self._flows = flows
        self._book = book

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["sayFlow"], self.say),
            Route(contract.OPERATIONS["getFlow"], self.show),
            Route(contract.OPERATIONS["endFlow"], self.end),
        ]

    async def say(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the limits that hold from now on, in place of those before."""
        body = await read_body(scope, receive, MAX_BODY_BYTES)
        wanted = decode(body, _FLOW)
        refuse_duplicates(body)
        subscription = await self._subscription(scope)
        flow = await self._flows.put(
            subscription,
            messages_per_second=wanted.messages_per_second,
            max_outstanding=wanted.max_outstanding,
            ttl_s=wanted.ttl_seconds,
            reason=wanted.reason,
            said_by=subject_of(scope),
        )
        if flow is None:
            raise not_found("subscription", subscription.name)
        self._book.tell(flow)
        await respond(send, 200, _encode(_view(subscription.name, flow)), headers=NO_STORE)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the limits that hold now, or nulls where none does."""
        subscription = await self._subscription(scope)
        flow = await self._flows.get(subscription.tenant_id, subscription.uid)
        await respond(send, 200, _encode(_view(subscription.name, flow)), headers=NO_STORE)

    async def end(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 204: no limit of a consumer holds any more."""
        subscription = await self._subscription(scope)
        flow = await self._flows.end(subscription)
        if flow is not None:
            self._book.tell(flow)
        await respond(send, 204, b"")

    async def _subscription(self, scope: Scope) -> Subscription:
        return await self._catalog.subscription(tenant_of(scope), path_param(scope, "name"))


def _view(name: str, flow: Flow | None) -> contract.Flow:
    if flow is None:
        return contract.Flow(name, None, None, "", None, None)
    return contract.Flow(
        name,
        flow.messages_per_second,
        flow.max_outstanding,
        flow.reason,
        flow.said_by,
        flow.until,
    )
