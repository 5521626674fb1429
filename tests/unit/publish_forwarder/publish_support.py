"""A store, a catalog and an ASGI client that tests of the publish forwarder hold in their hands."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from edge.asgi import MutableMapping
from edge.problem import Problem
from metadata.errors import MetadataError, NotFound
from metadata.types import Partition, Retention, Topic, TopicState
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.routes import routes
from publish_forwarder.settings import PublishSettings
from store_nodes.client.appender import Receipt
from store_nodes.errors import StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from store_nodes.wire import Durability

TENANT = uuid.UUID(int=1).bytes
LOG_TIME_US = 1_767_225_599_123_456


def topic(name: str = "orders", partitions: int = 4, uid: int = 7) -> Topic:
    now = datetime.now(UTC)
    return Topic(
        tenant_id=TENANT,
        uid=uuid.UUID(int=uid).bytes,
        name=name,
        state=TopicState.ACTIVE,
        partitions=tuple(Partition(number, group=number) for number in range(partitions)),
        retention=Retention(),
        dedup_window_s=600,
        labels={},
        version=1,
        created_at=now,
        updated_at=now,
    )


class FakeCatalog:
    """Holds topics by name; `failure` is raised by lookups that miss the cache."""

    def __init__(self, *topics: Topic) -> None:
        self.cached = {(t.tenant_id, t.name): t for t in topics}
        self.behind: dict[tuple[bytes, str], Topic] = {}
        self.failure: MetadataError | None = None
        self.lookups = 0

    def cached_topic(self, tenant_id: bytes, name: str) -> Topic | None:
        return self.cached.get((tenant_id, name))

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        self.lookups += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if refresh:
            self.cached.pop((tenant_id, name), None)
        found = self.behind.get((tenant_id, name)) or self.cached.get((tenant_id, name))
        if found is None:
            raise NotFound("topic", name)
        self.cached[tenant_id, name] = found
        return found


@dataclass
class Sent:
    """One append as the store got it, waiting for the test to answer."""

    messages: list[Message]
    durability: Durability
    timeout_s: float
    future: asyncio.Future[Receipt]


@dataclass
class FakeQueue:
    """An appender and the log behind it. Held appends wait for `answer` or `fail`."""

    group: int
    held: bool = False
    refusal: StoreError | None = None
    log: list[Message] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    appends: int = 0

    def append_nowait(
        self, batch: bytes, count: int, *, durability: Durability, timeout_s: float
    ) -> asyncio.Future[Receipt]:
        if self.refusal is not None:
            raise self.refusal
        messages = decode(batch)
        assert len(messages) == count
        self.appends += 1
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.sent.append(Sent(messages, durability, timeout_s, future))
        if not self.held:
            self.answer()
        return future

    def answer(self) -> None:
        sent = self.sent.pop(0)
        base_offset = len(self.log)
        self.log += sent.messages
        sent.future.set_result(Receipt(base_offset, LOG_TIME_US + base_offset, False))

    def fail(self, error: StoreError) -> None:
        self.sent.pop(0).future.set_exception(error)

    def release(self) -> None:
        self.held = False
        while self.sent:
            self.answer()


class FakeStore:
    """One queue per (group, queue id); `leaderless` are the groups without a leader."""

    def __init__(self) -> None:
        self.leaderless: set[int] = set()
        self.queues: dict[QueueId, FakeQueue] = {}

    def has_leader(self, group: int) -> bool:
        return group not in self.leaderless

    def appender(self, group: int, queue: QueueId) -> FakeQueue:
        return self.queues.setdefault(queue, FakeQueue(group))

    def partition(self, number: int, topic_uid: bytes | None = None) -> FakeQueue:
        uid = topic_uid or topic().uid
        return self.appender(number, QueueId(uid, number))

    def hold(self, *partitions: int) -> None:
        for number in partitions:
            self.partition(number).held = True

    def stored(self) -> list[bytes]:
        return [message.data for queue in self.queues.values() for message in queue.log]


@asynccontextmanager
async def running(
    store: FakeStore,
    catalog: FakeCatalog | None = None,
    **settings: Any,
) -> AsyncIterator[PublishForwarder]:
    settings = {"drain_s": 0.05, "timeout_s": 2.0} | settings
    forwarder = PublishForwarder(
        catalog or FakeCatalog(topic()), store, PublishSettings(**settings), registry=None
    )
    await forwarder.start()
    try:
        yield forwarder
    finally:
        await forwarder.close()


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def post(
    forwarder: PublishForwarder,
    body: bytes | Sequence[bytes],
    headers: dict[str, str] | None = None,
    *,
    path: str = "messages",
    topic_name: str = "orders",
) -> Answer:
    """What the gateway would do with the request; Problems become answers."""
    handler = next(r.handler for r in routes(forwarder) if r.path.endswith("/" + path))
    chunks = [body] if isinstance(body, bytes) else list(body)
    parts = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    parts.append({"type": "http.request", "body": b"", "more_body": False})
    answer = Answer(0, {}, b"")

    async def receive() -> MutableMapping[str, Any]:
        return parts.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = dict(message["headers"])
        else:
            answer.body += message["body"]

    scope: dict[str, Any] = {
        "type": "http",
        "packetboat.tenant": TENANT,
        "path_params": {"topic": topic_name},
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
    }
    try:
        await handler(scope, receive, send)
    except Problem as problem:
        return Answer(problem.status, {}, problem.to_json())
    return answer


async def post_batch(
    forwarder: PublishForwarder, items: list[Any], headers: dict[str, str] | None = None
) -> Answer:
    body = msgspec.json.encode({"messages": items})
    given = {"Content-Type": "application/json"} | (headers or {})
    return await post(forwarder, body, given, path="messages:batch")


async def settle(turns: int = 8) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)
