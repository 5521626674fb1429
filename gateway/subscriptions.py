"""Control plane of subscriptions: create, get, list, change, delete."""

from __future__ import annotations

from typing import Protocol

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond, tenant_of
from edge.problem import FieldError, Problem, invalid, not_found, unavailable
from gateway.backlog import backlogs, not_empty
from gateway.decoding import Query, etag, if_match, read_json
from gateway.start_positions import StartPositions
from gateway.subscription_bodies import (
    SubscriptionCreate,
    SubscriptionPatch,
    SubscriptionPut,
    changed,
    new_spec,
    start_of,
    view,
)
from gateway.topics import MAX_PAGE_SIZE, precondition_failed, respond_no_content
from metadata.catalog import Catalog
from metadata.errors import Conflict, NotFound
from metadata.snapshots import SnapshotRepository
from metadata.subscriptions import SubscriptionRepository
from metadata.types import CursorState, Subscription, SubscriptionSpec, Topic
from store_nodes.errors import QueueNotFound, StoreError
from store_nodes.queue_id import QueueId
from subscribe_forwarder.reading.places import Found


class Cursors(Protocol):
    """The part of `metadata.cursors.CursorRepository` that counting a backlog needs."""

    async def of_subscription(
        self, tenant_id: bytes, subscription_uid: bytes
    ) -> tuple[CursorState, ...]: ...


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that starts and backlogs need."""

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5) -> Found: ...
    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int: ...


class SubscriptionRoutes:
    """Both paths name the same thing: a subscription's name is unique in its tenant."""

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: SubscriptionRepository,
        cursors: Cursors,
        store: Store,
        snapshots: SnapshotRepository,
    ) -> None:
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._cursors = cursors
        self._store = store
        self._starts = StartPositions(store, snapshots)

    def routes(self) -> list[Route]:
        one, nested = "/subscriptions/{name}", "/topics/{topic}/subscriptions/{name}"
        return [
            Route("POST", "/topics/{topic}/subscriptions", self.create, "manage"),
            Route("GET", "/topics/{topic}/subscriptions", self.page, "read"),
            Route("GET", "/subscriptions", self.page, "read"),
            Route("GET", one, self.get, "read"),
            Route("GET", nested, self.get, "read"),
            Route("PUT", one, self.put, "manage"),
            Route("PATCH", one, self.patch, "manage"),
            Route("DELETE", one, self.delete, "manage"),
            Route("DELETE", nested, self.delete, "manage"),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, SubscriptionCreate)
        topic = await self._catalog.topic(
            tenant_of(scope), path_param(scope, "topic"), refresh=True
        )
        try:
            await _respond(send, 201, await self._create(topic, body, body.name))
        except Conflict as error:
            raise Problem(
                409,
                "subscription-exists",
                "Subscription exists",
                f"There is a subscription {body.name!r} already; names are unique per tenant.",
            ) from error

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, SubscriptionPut)
        tenant_id, name = tenant_of(scope), path_param(scope, "name")
        version = if_match(header(scope, b"if-match"))
        try:
            found = await self._change(tenant_id, name, body, version)
        except NotFound as error:
            if version is not None:
                raise precondition_failed("subscription") from error
        else:
            await _respond(send, 200, found)
            return
        topic = await self._topic_of(tenant_id, body)
        try:
            await _respond(send, 201, await self._create(topic, body, name))
        except Conflict:  # another PUT was faster
            found = await self._change(tenant_id, name, body, version)
            await _respond(send, 200, found)

    async def patch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200; what the body does not name stays."""
        body = await read_json(scope, receive, SubscriptionPatch)
        version = if_match(header(scope, b"if-match"))
        found = await self._change(tenant_of(scope), path_param(scope, "name"), body, version)
        await _respond(send, 200, found)

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
        """409 while it has undelivered messages, unless `force=true`. What is published after the
        count is not in it."""
        force = Query(scope).flag("force")
        version = if_match(header(scope, b"if-match"))
        if not force or "topic" in scope["path_params"]:
            found = await self._find(scope)
            if version is not None and version != found.version:
                raise precondition_failed("subscription")
            if not force:
                await self._refuse_backlog(found)
        try:
            await self._subscriptions.delete(
                tenant_of(scope), path_param(scope, "name"), if_version=version
            )
        except Conflict as error:
            raise precondition_failed("subscription") from error
        await respond_no_content(send)

    async def _create(self, topic: Topic, body: SubscriptionPut, name: str) -> Subscription:
        """Conflict when there is one of that name."""
        spec = new_spec(body, name, topic.name)
        await self._check_dead_letters(topic.tenant_id, spec, None)
        floors = await self._starts.floors(topic, start_of(body))
        return await self._subscriptions.create(topic.tenant_id, topic.uid, spec, floors)

    async def _change(
        self,
        tenant_id: bytes,
        name: str,
        body: SubscriptionPut | SubscriptionPatch,
        version: int | None,
    ) -> Subscription:
        """NotFound of the subscription."""
        present = await self._subscriptions.get(tenant_id, name)
        await self._check_dead_letters(tenant_id, changed(body, present), present)
        try:
            return await self._subscriptions.update(
                tenant_id, name, lambda now: changed(body, now), if_version=version
            )
        except Conflict as error:
            raise precondition_failed("subscription") from error

    async def _topic_of(self, tenant_id: bytes, body: SubscriptionPut) -> Topic:
        """That of a PUT that makes a subscription."""
        if not isinstance(body.topic, str):
            errors = [FieldError("topic", "required: there is no such subscription yet")]
            raise invalid("The body does not fit.", errors)
        try:
            return await self._catalog.topic(tenant_id, body.topic, refresh=True)
        except NotFound as error:
            errors = [FieldError("topic", f"there is no topic {body.topic!r}")]
            raise invalid("The body does not fit.", errors) from error

    async def _check_dead_letters(
        self, tenant_id: bytes, spec: SubscriptionSpec, present: Subscription | None
    ) -> None:
        """The topic must be there when it is named, and may be deleted later."""
        name = spec.dead_letter_topic
        if name is None or (present is not None and present.dead_letter_topic == name):
            return
        try:
            await self._catalog.topic(tenant_id, name, refresh=True)
        except NotFound as error:
            errors = [FieldError("dead_letter_topic", f"there is no topic {name!r}")]
            raise invalid("The body does not fit.", errors) from error

    async def _refuse_backlog(self, subscription: Subscription) -> None:
        tenant_id = subscription.tenant_id
        topic = await self._catalog.topic_by_uid(tenant_id, subscription.topic_uid)
        cursors = await self._cursors.of_subscription(tenant_id, subscription.uid)
        try:
            left = (await backlogs(self._store, topic, cursors))[subscription.uid]
        except QueueNotFound:
            return  # its topic is being deleted
        except StoreError as error:
            detail = "The backlog cannot be counted now; force=true deletes all the same."
            raise unavailable("store", detail) from error
        if left:
            raise not_empty("subscription", subscription.name, {subscription.name: left})

    async def _find(self, scope: Scope) -> Subscription:
        name = path_param(scope, "name")
        found = await self._subscriptions.get(tenant_of(scope), name)
        if scope["path_params"].get("topic", found.topic_name) != found.topic_name:
            raise not_found("subscription", name)
        return found


async def _respond(send: Send, status: int, subscription: Subscription) -> None:
    headers = [etag(subscription.version)]
    if status == 201:
        location = b"/subscriptions/" + subscription.name.encode("ascii")
        headers.append((b"location", location))
    await respond(send, status, msgspec.json.encode(view(subscription)), headers=headers)
