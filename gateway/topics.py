"""Control plane of topics: create, get, list, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond, tenant_of
from edge.problem import Problem, invalid, not_found
from gateway.decoding import Query, etag, if_match, read_json
from gateway.names import label_errors, name_errors
from gateway.topic_lifecycle import TopicLifecycle
from metadata.errors import Conflict
from metadata.topics import TopicRepository
from metadata.types import OnLimit, Retention, RetentionMode, Topic, TopicSpec, TopicState

MAX_PARTITIONS = 256
MIN_RETENTION_S = 600
MAX_RETENTION_S = 365 * 86_400
MAX_DEDUP_WINDOW_S = 86_400
MAX_PAGE_SIZE = 1000

Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
RetentionSeconds = Annotated[int, msgspec.Meta(ge=MIN_RETENTION_S, le=MAX_RETENTION_S)]


class RetentionBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long messages stay. Null: seven days, and as many bytes as the tenant may store."""

    mode: Literal["consume", "retain"] = "consume"
    seconds: RetentionSeconds | None = None
    bytes: Bytes | None = None
    on_limit: Literal["refuse", "expire_oldest"] = "refuse"


class TopicCreate(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /topics` takes."""

    name: str
    partitions: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTITIONS)] = 4
    retention: RetentionBody = msgspec.field(default_factory=RetentionBody)
    dedup_window_seconds: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEDUP_WINDOW_S)] = 600
    labels: dict[str, str] = {}

    def spec(self) -> TopicSpec:
        """Raises a 422 Problem."""
        errors = name_errors(self.name) + label_errors(self.labels)
        if errors:
            raise invalid("The body does not fit.", errors)
        retention = Retention(
            RetentionMode(self.retention.mode),
            self.retention.seconds,
            self.retention.bytes,
            OnLimit(self.retention.on_limit),
        )
        return TopicSpec(self.name, retention, self.dedup_window_seconds, self.labels)


def view(topic: Topic) -> dict[str, Any]:
    """A topic as the API shows it."""
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "retention": {
            "mode": topic.retention.mode.value,
            "seconds": topic.retention.seconds,
            "bytes": topic.retention.bytes,
            "on_limit": topic.retention.on_limit.value,
        },
        "full": topic.full_detail if topic.full is not None else None,
        "dedup_window_seconds": topic.dedup_window_s,
        "labels": dict(topic.labels),
        "created_at": topic.created_at,
        "updated_at": topic.updated_at,
    }


class TopicRoutes:
    """The handlers; what spans Postgres and the store is in TopicLifecycle."""

    def __init__(self, topics: TopicRepository, lifecycle: TopicLifecycle) -> None:
        self._topics = topics
        self._lifecycle = lifecycle

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/topics", self.create, "manage"),
            Route("GET", "/topics", self.page, "read"),
            Route("GET", "/topics/{topic}", self.get, "read"),
            Route("DELETE", "/topics/{topic}", self.delete, "manage"),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, TopicCreate)
        topic = await self._lifecycle.create(tenant_of(scope), body.spec(), body.partitions)
        location = (b"location", b"/topics/" + topic.name.encode("ascii"))
        await respond(
            send, 201, msgspec.json.encode(view(topic)), headers=[location, etag(topic.version)]
        )

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = path_param(scope, "topic")
        topic = await self._topics.get(tenant_of(scope), name)
        if topic.state is not TopicState.ACTIVE:
            raise not_found("topic", name)
        await respond(send, 200, msgspec.json.encode(view(topic)), headers=[etag(topic.version)])

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._topics.page(
            tenant_of(scope),
            page_size=query.integer("page_size", 100, 1, MAX_PAGE_SIZE),
            page_token=query.text("page_token") or None,
        )
        listing = {"topics": [view(t) for t in page.items], "next_page_token": page.next_token}
        await respond(send, 200, msgspec.json.encode(listing))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = if_match(header(scope, b"if-match"))
        try:
            await self._lifecycle.delete(tenant_of(scope), path_param(scope, "topic"), version)
        except Conflict as error:
            raise precondition_failed("topic") from error
        await respond_no_content(send)


def precondition_failed(kind: str) -> Problem:
    return Problem(
        412,
        "precondition-failed",
        "Precondition failed",
        f"The {kind} has changed since the version named in If-Match.",
    )


async def respond_no_content(send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})
