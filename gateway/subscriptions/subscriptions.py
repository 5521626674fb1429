"""Control plane of subscriptions: create, get, list, change, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    header,
    path_param,
    respond,
    tenant_of,
)
from edge.caller import Caller
from edge.egress.guard import Guard
from edge.parameters import Query
from edge.problem import FieldError, Problem, invalid, not_found
from edge.sealing import Sealer
from gateway.http.decoding import etag, if_match, read_json
from gateway.resources import precondition_failed, respond_no_content
from gateway.subscriptions.bodies import (
    changed,
    named_topics,
    new_spec,
    patched,
    start_of,
    to_create,
    view,
)
from gateway.subscriptions.push_bodies import NewSecret, PushMaker
from gateway.subscriptions.start_positions import StartPositions
from gateway.topics.holds import Hold, Holds, held
from gateway.topics.topics import respond_holds
from gateway.visible import visible_page
from metadata.catalog import Catalog
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.types import Subscription, SubscriptionSpec, Topic
from openapi import subscriptions as contract
from store_nodes.queue_id import QueueId
from subscribe_forwarder.reading.places import Found


class Store(Protocol):
    """The part of `store_nodes.client.StoreClient` that starts need."""

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5) -> Found: ...
    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int: ...


class EgressRules(Protocol):
    """The part of `gateway.egress_rules.EgressRules` that the URL of an endpoint needs."""

    async def guard_of(self, tenant_id: bytes) -> Guard: ...


class SubscriptionRoutes:
    """Both paths name the same thing: a subscription's name is unique in its tenant."""

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: SubscriptionRepository,
        holds: Holds,
        store: Store,
        snapshots: SnapshotRepository,
        sealer: Sealer,
        egress: EgressRules,
    ) -> None:
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._holds = holds
        self._starts = StartPositions(store, snapshots)
        self._sealer = sealer
        self._egress = egress

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["createSubscription"], self.create),
            Route(contract.OPERATIONS["listTopicSubscriptions"], self.page),
            Route(contract.OPERATIONS["listSubscriptions"], self.page),
            Route(contract.OPERATIONS["getSubscription"], self.get),
            Route(contract.OPERATIONS["getTopicSubscription"], self.get),
            Route(contract.OPERATIONS["putSubscription"], self.put),
            Route(contract.OPERATIONS["patchSubscription"], self.patch),
            Route(contract.OPERATIONS["deleteSubscription"], self.delete),
            Route(contract.OPERATIONS["deleteTopicSubscription"], self.delete),
            Route(contract.OPERATIONS["listSubscriptionHolds"], self.holds),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.SubscriptionCreate)
        caller, topic_name = caller_of(scope), path_param(scope, "topic")
        caller.require("manage", "subscription", body.name)
        caller.require("read", "topic", topic_name)
        topic = await self._catalog.topic(tenant_of(scope), topic_name, refresh=True)
        try:
            await _respond(send, 201, *await self._create(caller, topic, body))
        except Conflict as error:
            raise Problem(
                409,
                "subscription-exists",
                "Subscription exists",
                f"There is a subscription {body.name!r} already; names are unique per tenant.",
            ) from error

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 for a new subscription, 200 for one that is now as the body says."""
        body = await read_json(scope, receive, contract.SubscriptionPut)
        tenant_id, name = tenant_of(scope), path_param(scope, "name")
        version, caller = if_match(header(scope, b"if-match")), caller_of(scope)
        try:
            found = await self._change(caller, tenant_id, name, lambda _: body, version)
        except NotFound as error:
            if version is not None:
                raise precondition_failed("subscription") from error
        else:
            await _respond(send, 200, *found)
            return
        topic = await self._topic_of(caller, tenant_id, body)
        try:
            await _respond(send, 201, *await self._create(caller, topic, to_create(body, name)))
        except Conflict:  # another PUT was faster
            found = await self._change(caller, tenant_id, name, lambda _: body, version)
            await _respond(send, 200, *found)

    async def patch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200; members that the body does not name stay."""
        patch = await read_json(scope, receive, contract.SubscriptionPatch)
        version = if_match(header(scope, b"if-match"))
        found = await self._change(
            caller_of(scope),
            tenant_of(scope),
            path_param(scope, "name"),
            lambda present: patched(patch, present),
            version,
        )
        await _respond(send, 200, *found)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._find(scope)
        await respond(send, 200, msgspec.json.encode(view(found)), headers=[etag(found.version)])

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id, topic_uid = tenant_of(scope), None
        if "topic" in scope["path_params"]:
            topic = await self._catalog.topic(tenant_id, path_param(scope, "topic"))
            topic_uid = topic.uid
        page = await visible_page(
            scope,
            "subscription",
            lambda size, token: self._subscriptions.page(
                tenant_id, topic_uid=topic_uid, page_size=size, page_token=token
            ),
        )
        listing = contract.SubscriptionPage([view(item) for item in page.items], page.next_token)
        await respond(send, 200, msgspec.json.encode(listing))

    async def holds(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the losses for which a delete without `force=true` is refused."""
        await respond_holds(send, await self._holds_of(await self._find(scope)))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """409 while something would be lost (gateway/topics/holds.py), unless `force=true`. The
        count lacks messages that are published after it."""
        force = Query(scope).flag("force")
        version = if_match(header(scope, b"if-match"))
        if not force or "topic" in scope["path_params"]:
            found = await self._find(scope)
            if version is not None and version != found.version:
                raise precondition_failed("subscription")
            if not force and (holds := await self._holds_of(found)):
                raise held("subscription", found.name, holds)
        try:
            await self._subscriptions.delete(
                tenant_of(scope), path_param(scope, "name"), if_version=version
            )
        except Conflict as error:
            raise precondition_failed("subscription") from error
        await respond_no_content(send)

    async def _create(
        self, caller: Caller, topic: Topic, body: contract.SubscriptionCreate
    ) -> tuple[Subscription, Sequence[NewSecret]]:
        """Return the new subscription and its secrets. Raise Conflict when the name is taken."""
        uid, guard = new_uid(), await self._guard(topic.tenant_id, body)
        maker = PushMaker(self._sealer, guard, topic.tenant_id, uid, datetime.now(UTC))
        spec = new_spec(body, topic.name, maker.config)
        if isinstance(body.start, contract.StartAt) and isinstance(body.start.snapshot, str):
            caller.require("read", "snapshot", body.start.snapshot)
        await self._check_named_topics(caller, topic.tenant_id, spec, None)
        floors = await self._starts.floors(topic, start_of(body))
        made = await self._subscriptions.create(topic.tenant_id, topic.uid, spec, floors, uid)
        return made, maker.made

    async def _change(
        self,
        caller: Caller,
        tenant_id: bytes,
        name: str,
        body_for: Callable[[Subscription], contract.SubscriptionPut],
        version: int | None,
    ) -> tuple[Subscription, Sequence[NewSecret]]:
        """Return the changed subscription and its new secrets. `body_for` says what is asked for of
        the subscription as it is. Raise NotFound where there is none."""
        present = await self._subscriptions.get(tenant_id, name)
        # By its answers a filter tells what the messages are, so who changes it must be able to
        # read them.
        caller.require("read", "topic", present.topic_name)
        body = body_for(present)
        guard, now = await self._guard(tenant_id, body), datetime.now(UTC)
        maker = PushMaker(self._sealer, guard, tenant_id, present.uid, now)
        spec = changed(body, present, maker.config)
        await self._check_named_topics(caller, tenant_id, spec, present)

        def change(found: Subscription) -> SubscriptionSpec:
            nonlocal maker  # it may be another one of that name by now
            caller.require("read", "topic", found.topic_name)
            maker = PushMaker(self._sealer, guard, tenant_id, found.uid, now)
            return changed(body_for(found), found, maker.config)

        try:
            found = await self._subscriptions.update(tenant_id, name, change, if_version=version)
        except Conflict as error:
            raise precondition_failed("subscription") from error
        return found, maker.made

    async def _guard(self, tenant_id: bytes, body: contract.SubscriptionPut) -> Guard:
        """Return the rules for the URL of the body, if it has one."""
        if body.push is not None:
            return await self._egress.guard_of(tenant_id)
        return Guard()

    async def _topic_of(
        self, caller: Caller, tenant_id: bytes, body: contract.SubscriptionPut
    ) -> Topic:
        """Return the topic of a PUT that makes a subscription."""
        if not isinstance(body.topic, str):
            errors = [FieldError("topic", "required: there is no such subscription yet")]
            raise invalid("The body does not fit.", errors)
        caller.require("read", "topic", body.topic)
        try:
            return await self._catalog.topic(tenant_id, body.topic, refresh=True)
        except NotFound as error:
            errors = [FieldError("topic", f"there is no topic {body.topic!r}")]
            raise invalid("The body does not fit.", errors) from error

    async def _check_named_topics(
        self,
        caller: Caller,
        tenant_id: bytes,
        spec: SubscriptionSpec,
        present: Subscription | None,
    ) -> None:
        """Require that a topic is there when it is named, and that the caller may publish to it; it
        may be deleted later."""
        known = [] if present is None else named_topics(present)
        for field, name in named_topics(spec):
            if (field, name) in known:
                continue
            caller.require("publish", "topic", name)
            try:
                await self._catalog.topic(tenant_id, name, refresh=True)
            except NotFound as error:
                errors = [FieldError(field, f"there is no topic {name!r}")]
                raise invalid("The body does not fit.", errors) from error

    async def _holds_of(self, subscription: Subscription) -> list[Hold]:
        topic = await self._catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)
        return await self._holds.of_subscription(subscription, topic)

    async def _find(self, scope: Scope) -> Subscription:
        name = path_param(scope, "name")
        found = await self._subscriptions.get(tenant_of(scope), name)
        if scope["path_params"].get("topic", found.topic_name) != found.topic_name:
            raise not_found("subscription", name)
        return found


async def _respond(
    send: Send, status: int, subscription: Subscription, made: Sequence[NewSecret]
) -> None:
    headers = [etag(subscription.version)]
    if made:
        headers.append((b"cache-control", b"no-store"))
    if status == 201:
        location = b"/subscriptions/" + subscription.name.encode("ascii")
        headers.append((b"location", location))
    await respond(send, status, msgspec.json.encode(view(subscription, made)), headers=headers)
