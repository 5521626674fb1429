"""`/subscriptions/{name}/flow`: a consumer, or whoever speaks for its endpoint, says how much it
takes.

Any forwarder serves it: it writes the row and tells the others.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol

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
from edge.duplicate_keys import refuse_duplicates
from edge.problem import FieldError, invalid, not_found
from metadata.subscriptions.flows import Flow
from metadata.types import Subscription
from openapi.flow import OPERATIONS
from subscribe_forwarder.api.requests import decode
from subscribe_forwarder.ports import Catalog

MAX_BODY_BYTES = 16 * 1024
MAX_TTL_S = 3_600.0
DEFAULT_TTL_S = 60.0
NO_STORE = [(b"cache-control", b"no-store")]
_encode = msgspec.json.encode


class FlowBody(msgspec.Struct, forbid_unknown_fields=True):
    """One of the first two at least."""

    messages_per_second: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    max_outstanding: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    ttl_seconds: Annotated[float, msgspec.Meta(ge=1, le=MAX_TTL_S)] = DEFAULT_TTL_S
    reason: Annotated[str, msgspec.Meta(max_length=256)] = ""


_FLOW = msgspec.json.Decoder(FlowBody)


class Flows(Protocol):
    """The part of `metadata.subscriptions.flows.SubscriptionFlowRepository` that is used here."""

    async def put(
        self,
        subscription: Subscription,
        *,
        messages_per_second: float | None,
        max_outstanding: int | None,
        ttl_s: float,
        reason: str,
        said_by: str,
    ) -> Flow | None: ...
    async def end(self, subscription: Subscription) -> Flow | None: ...
    async def get(self, tenant_id: bytes, subscription_uid: bytes) -> Flow | None: ...


class Book(Protocol):
    """`throttling.flows.FlowBook`."""

    def tell(self, flow: Flow) -> None: ...


class FlowRoutes:
    """Raises Problems, and MetadataError, which the dispatcher answers."""

    def __init__(self, catalog: Catalog, flows: Flows, book: Book) -> None:
        self._catalog = catalog
        self._flows = flows
        self._book = book

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["sayFlow"], self.say),
            Route(OPERATIONS["getFlow"], self.show),
            Route(OPERATIONS["endFlow"], self.end),
        ]

    async def say(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 and what holds from now on, in place of what was said before."""
        body = await read_body(scope, receive, MAX_BODY_BYTES)
        wanted = decode(body, _FLOW)
        refuse_duplicates(body)
        if wanted.messages_per_second is None and wanted.max_outstanding is None:
            detail = "required, or max_outstanding"
            raise invalid("The body says nothing.", [FieldError("messages_per_second", detail)])
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
        await respond(send, 200, _encode(_members(subscription, flow)), headers=NO_STORE)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 and what holds now; nulls where nobody has said anything."""
        subscription = await self._subscription(scope)
        flow = await self._flows.get(subscription.tenant_id, subscription.uid)
        await respond(send, 200, _encode(_members(subscription, flow)), headers=NO_STORE)

    async def end(self, scope: Scope, receive: Receive, send: Send) -> None:
        """204: what was said holds no more, if anything did."""
        subscription = await self._subscription(scope)
        flow = await self._flows.end(subscription)
        if flow is not None:
            self._book.tell(flow)
        await respond(send, 204, b"")

    async def _subscription(self, scope: Scope) -> Subscription:
        return await self._catalog.subscription(tenant_of(scope), path_param(scope, "name"))


def _members(subscription: Subscription, flow: Flow | None) -> dict[str, Any]:
    return {
        "subscription": subscription.name,
        "messages_per_second": None if flow is None else flow.messages_per_second,
        "max_outstanding": None if flow is None else flow.max_outstanding,
        "reason": "" if flow is None else flow.reason,
        "said_by": None if flow is None else flow.said_by,
        "until": None if flow is None else flow.until,
    }
