"""Control plane of subscriptions: create, get, list, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond, tenant_of
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.decoding import Query, etag, if_match, read_json
from gateway.names import label_errors, name_errors
from gateway.placement import queue_of
from gateway.topics import MAX_PAGE_SIZE, precondition_failed, respond_no_content
from metadata.catalog import Catalog
from metadata.errors import Conflict
from metadata.subscriptions import SubscriptionRepository
from metadata.types import (
    Partition,
    RetryPolicy,
    SealedPartition,
    Subscription,
    SubscriptionSpec,
    Topic,
)
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId

MAX_OFFSET = 2**53
Backoff = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class Offsets(Protocol):
    """What the store answers about a queue: `first` kept and `end`, one past the last."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...


class OffsetStore(Protocol):
    """The part of `store_nodes.client.StoreClient` that finding a start needs."""

    async def offsets(self, group: int, queue: QueueId) -> Offsets:
        """Confirmed with a quorum: all that was answered before the call is counted."""
        ...

    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int: ...


class StartAt(msgspec.Struct, forbid_unknown_fields=True):
    """A start position other than the two named ones: exactly one of its fields."""

    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)] | None = None


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
    start: Literal["latest", "earliest"] | StartAt = "latest"
    labels: dict[str, str] = {}

    def spec(self) -> SubscriptionSpec:
        """Raises a 422 Problem."""
        errors = name_errors(self.name) + label_errors(self.labels)
        if self.retry.min_backoff_seconds > self.retry.max_backoff_seconds:
            errors.append(FieldError("retry.min_backoff_seconds", "at most max_backoff_seconds"))
        if isinstance(self.start, StartAt) and (self.start.time is None) == (
            self.start.offset is None
        ):
            errors.append(FieldError("start", "either time or offset"))
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
            start=self._start(),
            labels=self.labels,
        )

    def _start(self) -> str | Mapping[str, object]:
        if isinstance(self.start, str):
            return self.start
        if self.start.time is not None:
            return {"time": self.start.time.isoformat()}
        return {"offset": self.start.offset}


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
        self._store = store

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
        floors = await self._floors(topic, body.start)
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

    async def _floors(self, topic: Topic, start: str | StartAt) -> dict[int, int]:
        """Where each partition's cursor begins."""
        async with asyncio.TaskGroup() as tasks:
            floors = {
                partition.number: tasks.create_task(self._floor(topic, partition, start))
                for partition in topic.partitions
            }
        return {number: task.result() for number, task in floors.items()}

    async def _floor(self, topic: Topic, partition: Partition, start: str | StartAt) -> int:
        if isinstance(start, StartAt) and start.time is not None:
            return await self._at(topic, partition, start.time)
        offsets = await self._store.offsets(partition.group, queue_of(topic.uid, partition))
        if start == "latest":
            return offsets.end
        wanted = start.offset if isinstance(start, StartAt) and start.offset is not None else 0
        if wanted < offsets.first:
            wanted = max(wanted, await self._first(topic, partition, offsets.first))
        return min(wanted, offsets.end)

    async def _first(self, topic: Topic, partition: Partition, default: int) -> int:
        """The first offset kept, of whichever generation has it."""
        for sealed in topic.generations(partition.number):
            if isinstance(sealed, SealedPartition):
                with suppress(QueueNotFound):  # all of it was trimmed
                    found = await self._store.offsets(sealed.group, queue_of(topic.uid, sealed))
                    if found.first < sealed.sealed_at:
                        return found.first
        return default

    async def _at(self, topic: Topic, partition: Partition, time: datetime) -> int:
        """The first offset that is not older."""
        time_us = max(0, int(time.timestamp() * 1_000_000))
        for sealed in topic.generations(partition.number):
            if isinstance(sealed, SealedPartition):
                with suppress(QueueNotFound):
                    queue = queue_of(topic.uid, sealed)
                    found = await self._store.offset_at(sealed.group, queue, time_us)
                    if found < sealed.sealed_at:
                        return found
        return await self._store.offset_at(partition.group, queue_of(topic.uid, partition), time_us)
