"""Control plane of subscriptions: create, get, list, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond, tenant_of
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.decoding import Query, etag, if_match, read_json
from gateway.names import label_errors, name_errors
from gateway.start_positions import (
    OffsetStore,
    Start,
    StartPositions,
    start_errors,
    start_spec,
)
from gateway.topics import MAX_PAGE_SIZE, precondition_failed, respond_no_content
from metadata.catalog import Catalog
from metadata.errors import Conflict
from metadata.subscriptions import SubscriptionRepository
from metadata.types import RetryPolicy, Subscription, SubscriptionSpec

Backoff = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class RetryBody(msgspec.Struct, forbid_unknown_fields=True):
    """Back-off between attempts."""

    min_backoff_seconds: Backoff = 1.0
    max_backoff_seconds: Backoff = 600.0
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None


class SubscriptionCreate(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /topics/{topic}/subscriptions` takes."""

    name: str
    type: Literal["pull"] = "pull"
    delivery: Literal["at_least_once"] = "at_least_once"
    ack_deadline_seconds: Annotated[float, msgspec.Meta(ge=1, le=43_200)] = 30.0
    retry: RetryBody = msgspec.field(default_factory=RetryBody)
    start: Start = "latest"
    labels: dict[str, str] = {}

    def spec(self) -> SubscriptionSpec:
        """Raises a 422 Problem."""
        errors = name_errors(self.name) + label_errors(self.labels) + start_errors(self.start)
        if self.retry.min_backoff_seconds > self.retry.max_backoff_seconds:
            errors.append(FieldError("retry.min_backoff_seconds", "at most max_backoff_seconds"))
        if errors:
            raise invalid("The body does not fit.", errors)
        return SubscriptionSpec(
            name=self.name,
            ack_deadline_s=self.ack_deadline_seconds,
            retry=RetryPolicy(
                self.retry.min_backoff_seconds,
                self.retry.max_backoff_seconds,
                self.retry.max_attempts,
            ),
            start=start_spec(self.start),
            labels=self.labels,
        )


def view(subscription: Subscription) -> dict[str, Any]:
    """A subscription as the API shows it."""
    return {
        "name": subscription.name,
        "topic": subscription.topic_name,
        "type": subscription.type.value,
        "delivery": subscription.delivery.value,
        "ack_deadline_seconds": subscription.ack_deadline_s,
        "retry": {
            "min_backoff_seconds": subscription.retry.min_backoff_s,
            "max_backoff_seconds": subscription.retry.max_backoff_s,
            "max_attempts": subscription.retry.max_attempts,
        },
        "start": subscription.start,
        "labels": dict(subscription.labels),
        "created_at": subscription.created_at,
        "updated_at": subscription.updated_at,
    }


class SubscriptionRoutes:
    """Both paths name the same thing: a subscription's name is unique in its tenant."""

    def __init__(
        self, catalog: Catalog, subscriptions: SubscriptionRepository, store: OffsetStore
    ) -> None:
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._starts = StartPositions(store)

    def routes(self) -> list[Route]:
        one, nested = "/subscriptions/{name}", "/topics/{topic}/subscriptions/{name}"
        return [
            Route("POST", "/topics/{topic}/subscriptions", self.create, "manage"),
            Route("GET", "/topics/{topic}/subscriptions", self.page, "read"),
            Route("GET", "/subscriptions", self.page, "read"),
            Route("GET", one, self.get, "read"),
            Route("GET", nested, self.get, "read"),
            Route("DELETE", one, self.delete, "manage"),
            Route("DELETE", nested, self.delete, "manage"),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        body = await read_json(scope, receive, SubscriptionCreate)
        spec = body.spec()
        topic = await self._catalog.topic(tenant_id, path_param(scope, "topic"), refresh=True)
        floors = await self._starts.floors(topic, body.start)
        try:
            subscription = await self._subscriptions.create(tenant_id, topic.uid, spec, floors)
        except Conflict as error:
            raise Problem(
                409,
                "subscription-exists",
                "Subscription exists",
                f"There is a subscription {spec.name!r} already; names are unique per tenant.",
            ) from error
        await respond(
            send,
            201,
            msgspec.json.encode(view(subscription)),
            headers=[
                (b"location", b"/subscriptions/" + subscription.name.encode("ascii")),
                etag(subscription.version),
            ],
        )

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._find(scope)
        await respond(send, 200, msgspec.json.encode(view(found)), headers=[etag(found.version)])

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query, tenant_id = Query(scope), tenant_of(scope)
        topic_uid = None
        if "topic" in scope["path_params"]:
            topic = await self._catalog.topic(tenant_id, path_param(scope, "topic"))
            topic_uid = topic.uid
        page = await self._subscriptions.page(
            tenant_id,
            topic_uid=topic_uid,
            page_size=query.integer("page_size", 100, 1, MAX_PAGE_SIZE),
            page_token=query.text("page_token") or None,
        )
        listing = {
            "subscriptions": [view(item) for item in page.items],
            "next_page_token": page.next_token,
        }
        await respond(send, 200, msgspec.json.encode(listing))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "topic" in scope["path_params"]:
            await self._find(scope)
        version = if_match(header(scope, b"if-match"))
        try:
            await self._subscriptions.delete(
                tenant_of(scope), path_param(scope, "name"), if_version=version
            )
        except Conflict as error:
            raise precondition_failed("subscription") from error
        await respond_no_content(send)

    async def _find(self, scope: Scope) -> Subscription:
        name = path_param(scope, "name")
        found = await self._subscriptions.get(tenant_of(scope), name)
        if scope["path_params"].get("topic", found.topic_name) != found.topic_name:
            raise not_found("subscription", name)
        return found
