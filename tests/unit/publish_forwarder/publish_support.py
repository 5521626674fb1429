"""A store, a catalog and an ASGI client that tests of the publish forwarder hold in their hands."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
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
from store_nodes.client.reads import Location
from store_nodes.commands import DEDUP_ENTRY, StageExtras
from store_nodes.errors import (
    DedupKnown,
    Known,
    OutcomeUnknown,
    QueueNotFound,
    QueueSealed,
    StoreError,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from store_nodes.wire import Durability, QueueOffsets

TENANT = uuid.UUID(int=1).bytes
LOG_TIME_US = 1_767_225_599_123_456
HELD_US = 2**63
"""Due time of a message that is staged without a time."""


def topic(name: str = "orders", partitions: int = 4, uid: int = 7, priorities: int = 1) -> Topic:
    now = datetime.now(UTC)
    return Topic(
        tenant_id=TENANT,
        uid=uuid.UUID(int=uid).bytes,
        name=name,
        state=TopicState.ACTIVE,
        partitions=tuple(
            Partition(number, group=number, lane=lane)
            for number in range(partitions)
            for lane in range(priorities)
        ),
        priorities=priorities,
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
    """One append or stage as the store got it, waiting for the test to answer."""

    messages: list[Message]
    durability: Durability
    timeout_s: float
    future: asyncio.Future[Receipt]
    ids: list[tuple[int, bytes, int]]
    due_us: tuple[int, ...] | None = None


Dedup = dict[bytes, tuple[int, Known]]
"""The ids that a group remembers: the fingerprint of each, and where its message is."""


@dataclass
class FakeQueue:
    """An appender and the log behind it. Held appends wait for `answer` or `fail`."""

    group: int
    queue: QueueId
    remembered: Dedup = field(default_factory=dict)
    held: bool = False
    refusal: StoreError | None = None
    successors: tuple[tuple[int, bytes], ...] = ()
    """Successors of a sealed queue."""
    log: list[Message] = field(default_factory=list)
    staged: list[tuple[Message, int]] = field(default_factory=list)
    fates: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    """Fates of staged messages that wait no longer, as `locate` returns them."""
    sent: list[Sent] = field(default_factory=list)
    appends: int = 0

    def append(
        self,
        batch: bytes,
        count: int,
        extras: StageExtras | None,
        *,
        durability: Durability,
        timeout_s: float,
        dedup: bytes,
        dedup_window_s: int,
    ) -> asyncio.Future[Receipt]:
        if self.refusal is not None:
            raise self.refusal
        messages = decode(batch)
        assert len(messages) == count
        ids = list(DEDUP_ENTRY.iter_unpack(dedup))
        assert len({name for _, name, _ in ids}) == len(ids), "an id twice in one append"
        assert not ids or durability is not Durability.LEADER, "answered before ids are looked at"
        self.appends += 1
        due_us = None
        if extras is not None:
            due_us = (HELD_US,) * count if extras.due_us is None else extras.due_us
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.sent.append(Sent(messages, durability, timeout_s, future, ids, due_us))
        if not self.held:
            self.answer()
        return future

    def answer(self) -> None:
        sent = self.sent.pop(0)
        result = self.apply(sent)
        if isinstance(result, Receipt):
            sent.future.set_result(result)
        else:
            sent.future.set_exception(result)

    def apply(self, sent: Sent) -> Receipt | StoreError:
        """Return the decision of the log, which makes its checks in the same order."""
        known = {}
        for index, name, fingerprint in sent.ids:
            if name in self.remembered:
                first, where = self.remembered[name]
                known[index] = where._replace(same_body=first == fingerprint)
        if known:
            return DedupKnown(known)
        if self.successors:
            return QueueSealed(len(self.log), self.successors)
        staged = sent.due_us is not None
        base = len(self.staged) if staged else len(self.log)
        time_us = LOG_TIME_US + base
        if sent.due_us is not None:
            self.staged += zip(sent.messages, sent.due_us, strict=True)
        else:
            self.log += sent.messages
        for index, name, fingerprint in sent.ids:
            where = Known(base + index, staged, True, self.queue.pack(), time_us)
            self.remembered[name] = (fingerprint, where)
        return Receipt(base, time_us, False)

    def fail(self, error: StoreError) -> None:
        self.sent.pop(0).future.set_exception(error)

    def lose_the_answer(self) -> None:
        """The log takes it, and nobody is told."""
        sent = self.sent.pop(0)
        assert isinstance(self.apply(sent), Receipt)
        sent.future.set_exception(OutcomeUnknown("silence"))

    def release(self) -> None:
        self.held = False
        while self.sent:
            self.answer()


class FakeStore:
    """One queue per (group, queue id); `leaderless` are the groups without a leader."""

    def __init__(self) -> None:
        self.leaderless: set[int] = set()
        self.queues: dict[QueueId, FakeQueue] = {}
        self.remembered: dict[int, Dedup] = {}

    def has_leader(self, group: int) -> bool:
        return group not in self.leaderless

    def appender(self, group: int, queue: QueueId) -> FakeQueue:
        if queue not in self.queues:
            remembered = self.remembered.setdefault(group, {})
            self.queues[queue] = FakeQueue(group, queue, remembered)
        return self.queues[queue]

    def _of(self, queue: QueueId) -> FakeQueue:
        if queue not in self.queues:
            raise QueueNotFound(str(queue))
        return self.queues[queue]

    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> int:
        of = self._of(queue)
        waiting = [n for n in numbers if n < len(of.staged) and n not in of.fates]
        of.fates |= {n: ("discarded", None) for n in waiting}
        return len(waiting)

    async def reschedule(
        self, group: int, queue: QueueId, numbers: Sequence[int], due_us: Sequence[int]
    ) -> int:
        of = self._of(queue)
        changed = 0
        for n, each_us in zip(numbers, due_us, strict=True):
            if n < len(of.staged) and n not in of.fates:
                of.staged[n] = (of.staged[n][0], each_us)
                changed += 1
        return changed

    async def locate(self, group: int, queue: QueueId, stage_number: int) -> Location:
        of = self._of(queue)
        if stage_number >= len(of.staged):
            return Location("truncated", None)
        return Location(*of.fates.get(stage_number, ("staged", None)))

    async def offsets(self, group: int, queue: QueueId) -> QueueOffsets:
        of = self._of(queue)
        return QueueOffsets(queue.pack(), 0, len(of.log), len(of.staged), bool(of.successors))

    def partition(
        self, number: int, topic_uid: bytes | None = None, generation: int = 0
    ) -> FakeQueue:
        queue = QueueId(topic_uid or topic().uid, number, 0, generation)
        return self.queues.get(queue) or self.appender(number, queue)

    def hold(self, *partitions: int) -> None:
        for number in partitions:
            self.partition(number).held = True

    def stored(self) -> list[bytes]:
        return [message.data for queue in self.queues.values() for message in queue.log]


@asynccontextmanager
async def running(
    store: FakeStore,
    catalog: FakeCatalog | None = None,
    *,
    forwarded: Any = None,
    admits: Callable[[int], bool] = lambda _: True,
    kind: Callable[..., PublishForwarder] = PublishForwarder,
    **settings: Any,
) -> AsyncIterator[PublishForwarder]:
    settings = {"drain_s": 0.05, "timeout_s": 2.0} | settings
    forwarder = kind(
        catalog or FakeCatalog(topic()),
        store,
        PublishSettings(**settings),
        forwarded=forwarded,
        admits=admits,
        registry=None,
    )
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
    """Handle a request as the gateway would; Problems become answers."""
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


async def run_ready(turns: int = 8) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)
