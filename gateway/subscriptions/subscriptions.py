"""Control plane of subscriptions: create, get, list, change, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from edge.asgi import Receive, Route, Scope, Send, path_param, tenant_of
from edge.caller import Caller
from edge.egress.guard import Guard
from edge.expressions.ahead import read_ahead
from edge.problem import FieldError, invalid, not_found
from edge.sealing import Sealer
from gateway.egress_rules import EgressRules
from gateway.resources import Call, ReadPage, Resource, Shown, precondition_failed, taken
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
from gateway.topics.holds import Holds, held
from gateway.topics.topics import respond_holds
from metadata.catalog import Catalog
from metadata.errors import NotFound
from metadata.ids import new_uid
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.types import Subscription, SubscriptionSpec, Topic
from openapi import subscriptions as contract
from openapi.common import Hold
from openapi.contract import Body
from positions.targets import Targets
from store_nodes.client import StoreClient


class SubscriptionRoutes:
    """Both paths name the same thing: a subscription's name is unique in its tenant."""

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: SubscriptionRepository,
        holds: Holds,
        store: StoreClient,
        snapshots: SnapshotRepository,
        sealer: Sealer,
        egress: EgressRules,
    ) -> None:
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._holds = holds
        self._targets = Targets(store, snapshots)
        self._sealer = sealer
        self._egress = egress

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        subscriptions = Resource("subscription", table["getSubscription"], _shown)
        return [
            subscriptions.creates(
                table["createSubscription"],
                contract.SubscriptionCreate,
                self._create,
                taken("subscription", "names are unique per tenant"),
            ),
            subscriptions.lists_selected(table["listTopicSubscriptions"], self._select),
            subscriptions.lists_selected(table["listSubscriptions"], self._select),
            subscriptions.shows(table["getSubscription"], self._get),
            subscriptions.shows(table["getTopicSubscription"], self._get),
            subscriptions.puts(
                table["putSubscription"], contract.SubscriptionPut, self._put, self._create_put
            ),
            subscriptions.changes(
                table["patchSubscription"], contract.SubscriptionPatch, self._patch
            ),
            subscriptions.deletes(table["deleteSubscription"], self._delete),
            subscriptions.deletes(table["deleteTopicSubscription"], self._delete),
            Route(table["listSubscriptionHolds"], self.holds),
        ]

    async def holds(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the losses for which a delete without `force=true` is refused."""
        found = await self._subscriptions.get(tenant_of(scope), path_param(scope, "name"))
        await respond_holds(send, await self._holds_of(found))

    async def _create(self, call: Call, body: contract.SubscriptionCreate) -> Shown:
        topic_name = call.path("topic")
        await call.caller.require("read", "topic", topic_name)
        topic = await self._catalog.topic(call.tenant_id, topic_name, refresh=True)
        return await self._create_on(topic, call, body)

    async def _put(self, call: Call, body: contract.SubscriptionPut) -> Shown:
        return await self._change(call, lambda _: body)

    async def _create_put(self, call: Call, body: contract.SubscriptionPut) -> Shown:
        topic = await self._topic_of(call.caller, call.tenant_id, body)
        return await self._create_on(topic, call, to_create(body, call.name))

    async def _patch(self, call: Call, patch: Body) -> Shown:
        return await self._change(call, lambda present: patched(patch, present))

    async def _get(self, call: Call) -> Subscription:
        """Return the subscription. Where the path names a topic, raise a 404 Problem if the
        subscription is of another one."""
        found = await self._subscriptions.get(call.tenant_id, call.name)
        if call.scope["path_params"].get("topic", found.topic_name) != found.topic_name:
            raise not_found("subscription", call.name)
        return found

    async def _select(self, call: Call) -> ReadPage[Subscription]:
        """Return what reads the subscriptions of the tenant, or only those of the topic that the
        path names."""
        if "topic" not in call.scope["path_params"]:
            return self._subscriptions.page
        topic = await self._catalog.topic(call.tenant_id, call.path("topic"))
        return partial(self._subscriptions.page, topic_uid=topic.uid)

    async def _delete(self, call: Call) -> None:
        """Raise a 409 Problem while something would be lost (gateway/topics/holds.py), unless
        `force=true`. The count lacks messages that are published after it."""
        version = call.if_version
        if not call.force or "topic" in call.scope["path_params"]:
            found = await self._get(call)
            if version is not None and version != found.version:
                raise precondition_failed("subscription")
            if not call.force and (holds := await self._holds_of(found)):
                raise held("subscription", found.name, holds)
        await self._subscriptions.delete(call.tenant_id, call.name, if_version=version)

    async def _create_on(
        self, topic: Topic, call: Call, body: contract.SubscriptionCreate
    ) -> Shown:
        """Return the new subscription of the topic, with its secrets."""
        await read_ahead(call.scope, body.filter)
        uid, guard = new_uid(), await self._guard(topic.tenant_id, body)
        maker = PushMaker(self._sealer, guard, topic.tenant_id, uid, datetime.now(UTC))
        spec = new_spec(body, topic.name, maker.config)
        if isinstance(body.start, contract.StartAt) and isinstance(body.start.snapshot, str):
            await call.caller.require("read", "snapshot", body.start.snapshot)
        await self._check_named_topics(call.caller, topic.tenant_id, spec, None)
        _, floors = await self._targets.find(topic, start_of(body))
        made = await self._subscriptions.create(topic.tenant_id, topic.uid, spec, floors, uid)
        return _shown(made, maker.made)

    async def _change(
        self, call: Call, body_for: Callable[[Subscription], contract.SubscriptionPut]
    ) -> Shown:
        """Return the changed subscription, with its new secrets. `body_for` says what is asked for
        of the subscription as it is."""
        tenant_id, caller = call.tenant_id, call.caller
        present = await self._subscriptions.get(tenant_id, call.name)
        # By its answers a filter tells what the messages are, so who changes it must be able to
        # read them.
        await caller.require("read", "topic", present.topic_name)
        body = body_for(present)
        if body.filter != present.filter:
            await read_ahead(call.scope, body.filter)
        guard, now = await self._guard(tenant_id, body), datetime.now(UTC)
        maker = PushMaker(self._sealer, guard, tenant_id, present.uid, now)
        spec = changed(body, present, maker.config)
        await self._check_named_topics(caller, tenant_id, spec, present)

        def change(found: Subscription) -> SubscriptionSpec:
            nonlocal maker  # it may be another one of that name by now
            caller.must("read", "topic", found.topic_name)
            maker = PushMaker(self._sealer, guard, tenant_id, found.uid, now)
            return changed(body_for(found), found, maker.config)

        found = await self._subscriptions.update(
            tenant_id, call.name, change, if_version=call.if_version
        )
        return _shown(found, maker.made)

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
        await caller.require("read", "topic", body.topic)
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
            await caller.require("publish", "topic", name)
            try:
                await self._catalog.topic(tenant_id, name, refresh=True)
            except NotFound as error:
                errors = [FieldError(field, f"there is no topic {name!r}")]
                raise invalid("The body does not fit.", errors) from error

    async def _holds_of(self, subscription: Subscription) -> list[Hold]:
        topic = await self._catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)
        return await self._holds.of_subscription(subscription, topic)


def _shown(subscription: Subscription, made: Sequence[NewSecret] = ()) -> Shown:
    """Show the subscription with the signing secrets that were just made."""
    return Shown(
        view(subscription, made), subscription.name, subscription.version, secret=bool(made)
    )
