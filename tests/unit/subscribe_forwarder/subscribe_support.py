"""A store, a metadata store and an ASGI client that tests of the subscribe forwarder hold."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from edge.asgi import AUTHORISED, CALLER, ClientGone, Handler, Route
from edge.problem import Problem
from metadata.delivery.ack_history import AckHistoryRepository, MessageState, OpenState
from metadata.delivery.cursor_balance import CursorBalance
from metadata.delivery.deliveries import OpenDelivery
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.errors import MetadataError, NotFound, NotYet
from metadata.types import (
    Change,
    ChangeKind,
    CursorKey,
    CursorState,
    CursorUpdate,
    Epoch,
    Partition,
    Retention,
    RetryPolicy,
    Subscription,
    Topic,
    TopicState,
    Unit,
)
from outbox import Item, Outbox, StoredPosition
from peering.shared_secret import SharedSecret
from store_nodes import record_batch
from store_nodes.client import Receipt
from store_nodes.client.reads import StagedEntry, StagedPage
from store_nodes.errors import QueueNotFound, QueueTruncated, StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import QueueOffsets, StagedInfo
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.routes import routes
from subscribe_forwarder.api.task_acks import TaskAcks
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.delivery.dead_letter_writer import DeadLetterWriter
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.fleet.proxy.routing import Routing
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.unit.subscribe_forwarder.fake_ownership import TENANT, FakeOwnership

TOPIC_UID = uuid.UUID(int=7).bytes
SUBSCRIPTION_UID = uuid.UUID(int=9).bytes
NO_TASK_ACKS = cast(TaskAcks, None)
"""Acks that publish have tests of their own, on real stores."""
ACK_KEY = SharedSecret(b"a key that tests share, 32 bytes")
LOG_TIME_US = 1_767_225_599_123_456
NOW = datetime.now(UTC)


def topic(
    partitions: int = 1, name: str = "orders", uid: bytes = TOPIC_UID, priorities: int = 1
) -> Topic:
    return Topic(
        tenant_id=TENANT,
        uid=uid,
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
        created_at=NOW,
        updated_at=NOW,
    )


def subscription(
    name: str = "reader", uid: bytes = SUBSCRIPTION_UID, ack_deadline_s: float = 30.0
) -> Subscription:
    return Subscription(
        tenant_id=TENANT,
        uid=uid,
        name=name,
        topic_uid=TOPIC_UID,
        topic_name="orders",
        type="pull",
        delivery="at_least_once",
        ordered=False,
        ack_deadline_s=ack_deadline_s,
        retry=RetryPolicy(min_backoff_s=0.0),
        start="earliest",
        labels={},
        generation=1,
        version=1,
        created_at=NOW,
        updated_at=NOW,
    )


@dataclass
class Entry:
    base_offset: int
    log_time_us: int
    batch: bytes
    indices: tuple[int, ...] | None = None
    count: int = 0
    stage: int | None = None


@dataclass
class Fetched:
    entries: list[Entry]
    first_offset: int
    readable_end: int


@dataclass
class FakeQueue:
    entries: list[Entry] = field(default_factory=list)
    first: int = 0
    end: int = 0
    sealed: bool = False
    kept: tuple[int, ...] = ()
    staged: list[StagedOne] = field(default_factory=list)


@dataclass
class StagedOne:
    """One staged message: its batch, the batch's first number, and what became of it."""

    batch: bytes
    base: int
    state: str = "staged"
    offset: int | None = None
    due_us: int | None = None


class FakeWatch:
    def __init__(
        self,
        store: FakeStore,
        on_change: Callable[[Sequence[QueueOffsets]], None],
        on_append: Callable[[bytes, Receipt, bytes], None] | None,
    ):
        self._store = store
        self.on_change = on_change
        self.on_append = on_append
        self.queues: set[QueueId] = set()

    def add(self, queue: QueueId) -> None:
        self.queues.add(queue)
        asyncio.get_running_loop().call_soon(self._store.tell, queue)

    def remove(self, queue: QueueId) -> None:
        self.queues.discard(queue)

    def close(self) -> None:
        self.queues.clear()


class FakeStore:
    """Queues in memory. `failure` is raised by reads; `silent` holds back watch frames."""

    def __init__(self, topic_uid: bytes = TOPIC_UID) -> None:
        self.topic_uid = topic_uid
        self.queues: dict[QueueId, FakeQueue] = {}
        self.watches: list[FakeWatch] = []
        self.failure: StoreError | None = None
        self.silent = False
        self.fetches: list[int] = []
        self.located: list[int] = []
        self.delay_s = 0.0

    def publish(
        self,
        *bodies: bytes | Message,
        partition: int = 0,
        generation: int = 0,
        lane: int = 0,
        here: bool = False,
        **fields: Any,
    ) -> list[int]:
        """Append one batch, by the client of the tails if it is appended `here`; return its
        offsets.
        """
        queue_id, queue = self._open(partition, generation, lane)
        messages, batch = _batch(bodies, fields)
        receipt = Receipt(queue.end, LOG_TIME_US + queue.end, duplicate=False)
        queue.entries.append(Entry(queue.end, LOG_TIME_US + queue.end, batch, None, len(messages)))
        base = queue.end
        queue.end += len(messages)
        for watch in self.watches:
            if here and watch.on_append is not None and queue_id in watch.queues:
                watch.on_append(queue_id.pack(), receipt, batch)
        if not self.silent:
            self.tell(queue_id)
        return list(range(base, queue.end))

    def stage(
        self, *bodies: bytes | Message, partition: int = 0, generation: int = 0, **fields: Any
    ) -> list[int]:
        """Stages one batch; its numbers."""
        _, queue = self._open(partition, generation)
        messages, batch = _batch(bodies, fields)
        base = len(queue.staged)
        queue.staged += [StagedOne(batch, base) for _ in messages]
        return list(range(base, len(queue.staged)))

    def release(self, *numbers: int, partition: int = 0, generation: int = 0) -> list[int]:
        """Releases messages of one staged batch, in that order; their offsets."""
        queue_id, queue = self._open(partition, generation)
        chosen = [queue.staged[number] for number in numbers]
        base = chosen[0].base
        indices = tuple(number - base for number in numbers)
        entry = Entry(
            queue.end, LOG_TIME_US + queue.end, chosen[0].batch, indices, len(numbers), base
        )
        queue.entries.append(entry)
        for one in chosen:
            one.state, one.offset = "offset", queue.end
            queue.end += 1
        if not self.silent:
            self.tell(queue_id)
        return [one.offset or 0 for one in chosen]

    def discard(self, number: int, partition: int = 0, generation: int = 0) -> None:
        _, queue = self._open(partition, generation)
        queue.staged[number].state = "discarded"

    def seal(self, partition: int = 0, generation: int = 0) -> int:
        """Seal a queue and return its end; the next generation exists from now on."""
        queue_id, queue = self._open(partition, generation)
        queue.sealed = True
        following = queue_id._replace(generation=generation + 1)
        self.queues[following] = FakeQueue(first=queue.end, end=queue.end)
        return queue.end

    def _open(self, partition: int, generation: int, lane: int = 0) -> tuple[QueueId, FakeQueue]:
        queue_id = QueueId(self.topic_uid, partition, lane, generation)
        queue = self.queues.setdefault(queue_id, FakeQueue())
        assert not queue.sealed
        return queue_id, queue

    def truncate(
        self, first: int, partition: int = 0, generation: int = 0, keep: Sequence[int] = ()
    ) -> None:
        queue = self.queues[QueueId(self.topic_uid, partition, 0, generation)]
        queue.first = first
        queue.kept = tuple(keep)
        queue.entries = [
            e
            for e in queue.entries
            if e.base_offset + e.count > first
            or any(e.base_offset <= offset < e.base_offset + e.count for offset in keep)
        ]
        for one in queue.staged:
            if one.offset is not None and one.offset < first:
                one.state, one.offset = "truncated", None

    def tell(self, queue_id: QueueId) -> None:
        queue = self.queues.setdefault(queue_id, FakeQueue())
        offsets = QueueOffsets(queue_id.pack(), queue.first, queue.end, sealed=queue.sealed)
        for watch in self.watches:
            if queue_id in watch.queues:
                watch.on_change([offsets])

    async def locate(self, group: int, queue: QueueId, stage_number: int) -> Location:
        await asyncio.sleep(0)
        self.located.append(stage_number)
        staged = self._queue(queue).staged
        if stage_number >= len(staged):
            return Location("truncated", None)
        return Location(staged[stage_number].state, staged[stage_number].offset)

    async def staged(self, group: int, queue: QueueId, after: int, limit: int) -> StagedPage:
        await asyncio.sleep(0)
        waiting = [
            StagedInfo(number, one.due_us, LOG_TIME_US)
            for number, one in enumerate(self._queue(queue).staged)
            if number > after and one.state == "staged"
        ]
        return StagedPage(tuple(waiting[:limit]), 0, False)

    async def fetch_staged(
        self, group: int, queue: QueueId, stage_number: int, max_bytes: int
    ) -> list[StagedEntry]:
        await asyncio.sleep(0)
        staged = self._queue(queue).staged
        if stage_number >= len(staged) or staged[stage_number].state == "discarded":
            return []
        one = staged[stage_number]
        count = sum(other.base == one.base for other in staged)
        return [StagedEntry(one.base, count, LOG_TIME_US, memoryview(one.batch))]

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        min_end: int | None = None,
    ) -> Fetched:
        self.fetches.append(offset)
        await asyncio.sleep(self.delay_s)
        found = self._queue(queue)
        if offset < found.first and offset not in found.kept:
            raise QueueTruncated(found.first)
        picked: list[Entry] = []
        size = 0
        for entry in found.entries:
            if entry.base_offset + entry.count > offset and (not picked or size < max_bytes):
                picked.append(entry)
                size += len(entry.batch)
        return Fetched(picked, found.first, found.end)

    async def offsets(self, group: int, queue: QueueId) -> QueueOffsets:
        await asyncio.sleep(0)
        found = self._queue(queue)
        return QueueOffsets(queue.pack(), found.first, found.end, sealed=found.sealed)

    async def offset_at(self, group: int, queue: QueueId, time_us: int) -> int:
        found = self._queue(queue)
        entries = (entry for entry in found.entries if entry.log_time_us >= time_us)
        return max(found.first, min((entry.base_offset for entry in entries), default=found.end))

    def watch(
        self,
        group: int,
        on_change: Callable[[Sequence[QueueOffsets]], None],
        on_append: Callable[[bytes, Receipt, bytes], None] | None = None,
    ) -> FakeWatch:
        self.watches.append(FakeWatch(self, on_change, on_append))
        return self.watches[-1]

    def _queue(self, queue: QueueId) -> FakeQueue:
        if self.failure is not None:
            raise self.failure
        if queue not in self.queues:
            raise QueueNotFound(str(queue))
        return self.queues[queue]


def _batch(
    bodies: Sequence[bytes | Message], fields: Mapping[str, Any]
) -> tuple[list[Message], bytes]:
    messages = [
        body if isinstance(body, Message) else Message(body, "text/plain", **fields)
        for body in bodies
    ]
    return messages, record_batch.encode(messages, LOG_TIME_US)


def stored(row: CursorState, update: CursorUpdate) -> CursorState:
    """Return the row, and the rows beside it, after the update."""
    open_ = {one.offset: one for one in row.stepped_over if one.offset not in update.closed}
    open_ |= {one.offset: one for one in update.stepped_over}
    leases = {one.number: one for one in row.leases if one.number not in update.ended_leases}
    leases |= {one.number: one for one in update.leases}
    return replace(
        row,
        floor=update.floor,
        read_to=update.read_to,
        acked=update.acked,
        counters=update.counters,
        exceptions=update.exceptions,
        stepped_over=tuple(open_[offset] for offset in sorted(open_)),
        leases=tuple(leases[number] for number in sorted(leases)),
    )


def unbalanced_by(row: CursorState) -> int:
    """Return by how many messages a row does not add up; its rows beside it are counted apart."""
    counted = row.counters.total() + len(row.stepped_over) + row.pending()
    return row.read_to - row.start - counted or len(row.stepped_over) - row.exceptions


class Location(NamedTuple):
    state: str
    offset: int | None


class Clock:
    """Real time plus what a test adds."""

    def __init__(self) -> None:
        self.added_s = 0.0
        self._stopped_at_s: float | None = None

    def __call__(self) -> float:
        running_s = asyncio.get_running_loop().time()
        return (self._stopped_at_s or running_s) + self.added_s

    def stop(self) -> None:
        """From now on only `added_s` moves it, however long a busy machine takes."""
        self._stopped_at_s = asyncio.get_running_loop().time()


class FakeMetadata(FakeOwnership):
    """Topics, subscriptions, cursor rows, claims and leases; `failure` is raised by everything."""

    def __init__(self, topic_: Topic, *subscriptions: Subscription, clock: Clock | None = None):
        self.clock = clock or Clock()
        super().__init__(self.clock)
        self.topics = {topic_.uid: topic_}
        self.subscriptions = {s.name: s for s in subscriptions}
        for one in subscriptions:
            self.add_rows(one, topic_)
        self.listeners: list[Callable[[Sequence[Change]], Awaitable[None]]] = []
        self.being_made: set[bytes] = set()
        self.failure: MetadataError | None = None
        self.flush_failure: MetadataError | None = None
        self.flush_happens = False
        """With `flush_failure`: the rows are written all the same."""
        self.flushes: list[list[CursorUpdate]] = []
        self.flush_gate: asyncio.Event | None = None
        self.forwarded: dict[tuple[QueueKey, int], Forwarded] = {}

    def add_rows(self, one: Subscription, topic_: Topic, floor: int = 0) -> None:
        self.subscriptions[one.name] = one
        for partition in topic_.partitions:
            key = CursorKey(TENANT, one.uid, partition.number, partition.lane)
            self.rows[key] = CursorState(
                key=key,
                topic_uid=topic_.uid,
                epoch=Epoch(0, self.epochs.get(Unit(TENANT, topic_.uid, partition.number), 0)),
                generation=one.generation,
                start=floor,
                floor=floor,
                read_to=floor,
            )

    def row(self, partition: int = 0, uid: bytes = SUBSCRIPTION_UID) -> CursorState:
        return self.rows[CursorKey(TENANT, uid, partition)]

    # Catalog and feed.

    async def topic(self, tenant_id: bytes, name: str, *, refresh: bool = False) -> Topic:
        for found in self.topics.values():
            if (found.tenant_id, found.name) == (tenant_id, name):
                return found
        raise NotFound("topic", name)

    async def topic_by_uid(self, tenant_id: bytes, uid: bytes) -> Topic:
        if uid not in self.topics:
            missing = NotYet if uid in self.being_made else NotFound
            raise missing("topic", uid.hex())
        return self.topics[uid]

    async def subscription(
        self, tenant_id: bytes, name: str, *, refresh: bool = False
    ) -> Subscription:
        found = self.subscriptions.get(name)
        if found is None or found.tenant_id != tenant_id:
            raise NotFound("subscription", name)
        return found

    async def subscriptions_of(
        self, tenant_id: bytes, topic_uid: bytes
    ) -> tuple[Subscription, ...]:
        return tuple(s for s in self.subscriptions.values() if s.topic_uid == topic_uid)

    def add_listener(self, listener: Callable[[Sequence[Change]], Awaitable[None]]) -> None:
        self.listeners.append(listener)

    async def changed(self, kind: ChangeKind, uid: bytes, name: str = "") -> None:
        for listener in self.listeners:
            await listener([Change(1, kind, TENANT, uid, name)])

    # Cursors.

    async def flush(self, updates: Sequence[CursorUpdate]) -> dict[CursorKey, int]:
        self.flushes.append(list(updates))
        if self.flush_gate is not None:
            await self.flush_gate.wait()
        else:
            await asyncio.sleep(0)
        failure = self.flush_failure or self.failure
        if failure is not None and not self.flush_happens:
            raise failure
        written: dict[CursorKey, int] = {}
        for update in updates:
            row = self.rows.get(update.key)
            if row is None or row.generation != update.generation:
                continue
            if update.epoch != row.epoch:
                continue
            self.rows[update.key] = stored(row, update)
            written[update.key] = unbalanced_by(self.rows[update.key])
        if failure is not None:
            raise failure
        return written

    async def load(self, keys: Iterable[Unit]) -> list[CursorState]:
        self._check()
        wanted = set(keys)
        return [
            row
            for key, row in self.rows.items()
            if (unit := Unit(TENANT, row.topic_uid, key.partition, key.subscription_uid)) in wanted
            or unit.base in wanted
        ]

    async def balances(
        self, tenant_id: bytes, subscription_uid: bytes
    ) -> tuple[CursorBalance, ...]:
        return await self.balances_of(
            [key for key in self.rows if key.subscription_uid == subscription_uid]
        )

    async def balances_of(self, keys: Sequence[CursorKey]) -> tuple[CursorBalance, ...]:
        self._check()
        rows = [self.rows[key] for key in keys if key in self.rows]
        return tuple(CursorBalance(row, len(row.stepped_over)) for row in rows)

    async def unbalanced_in(self, partitions: Iterable[Unit]) -> tuple[CursorBalance, ...]:
        wanted = {unit.base for unit in partitions}
        balances = await self.balances_of(
            [
                key
                for key, row in self.rows.items()
                if Unit(TENANT, row.topic_uid, key.partition) in wanted
            ]
        )
        return tuple(each for each in balances if each.difference)

    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> tuple[CursorState, ...]:
        self._check()
        return tuple(row for row in self.rows.values() if row.topic_uid == topic_uid)

    async def message_states(
        self, tenant_id: bytes, topic_uid: bytes, partition: int, lane: int, offset: int
    ) -> list[MessageState]:
        """Return the states of a message that is no dead letter, in a topic that keeps no
        history.
        """
        self._check()
        return [
            MessageState(row, open_state_of(row, offset))
            for row in self.rows.values()
            if (row.topic_uid, row.key.partition, row.key.lane) == (topic_uid, partition, lane)
        ]

    # Staged messages.

    async def find(self, queue: QueueKey, numbers: Sequence[int]) -> dict[int, Forwarded]:
        await asyncio.sleep(0)
        self._check()
        return {n: self.forwarded[queue, n] for n in numbers if (queue, n) in self.forwarded}

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure


class Consumer:
    """Calls the routes of a forwarder as the gateway would, as one tenant."""

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        tenant_id: bytes = TENANT,
        history: AckHistoryRepository | None = None,
    ) -> None:
        self.forwarder = forwarder
        self.tenant_id = tenant_id
        self.history = cast(AckHistoryRepository, history)
        self._routes: list[Route] = []

    def handler(self, method: str, path: str) -> Handler:
        """Return the handler that the gateway would call."""
        self._routes = self._routes or routes_of(self)
        return next(r.handler for r in self._routes if (r.method, r.path) == (method, path))

    async def ready(self) -> Consumer:
        while self.forwarder.not_ready_reason() is not None:
            await asyncio.sleep(0.001)
        return self

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: str = "",
        headers: Sequence[tuple[bytes, bytes]] = (),
        tenant: bytes | None = None,
        send_fails: bool = False,
        gone_after_s: float | None = None,
        refusal: Problem | None = None,
        **params: str,
    ) -> Answer:
        """Handle a request as the gateway would; Problems become answers.

        With `refusal`, the client does not leave; instead its caller may not go on.
        """
        handler = self.handler(method, path)
        raw = body if isinstance(body, bytes) else b"" if body is None else encode(body)
        sent_body = False
        answer = Answer(0, {}, b"")

        async def receive() -> dict[str, Any]:
            nonlocal sent_body
            if not sent_body:
                sent_body = True
                return {"type": "http.request", "body": raw, "more_body": False}
            await asyncio.sleep(3600 if gone_after_s is None else gone_after_s)
            if refusal is not None:
                raise refusal
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if send_fails:
                raise ConnectionResetError
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = dict(message["headers"])
            else:
                answer.body += message["body"]

        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "packetboat.tenant": tenant or self.tenant_id,
            CALLER: AUTHORISED,
            "packetboat.subject": "dev",
            "path_params": params,
            "query_string": query.encode(),
            "headers": list(headers),
        }
        try:
            await handler(scope, receive, send)
        except Problem as problem:
            return Answer(problem.status, {}, problem.to_json())
        except NotFound as error:
            return Answer(404, {}, encode({"detail": str(error)}))
        except MetadataError as error:
            return Answer(503, {}, encode({"detail": str(error)}))
        except ClientGone:
            return Answer(499, {}, b"")
        return answer

    async def pull(self, max_messages: int = 10, wait_s: float = 0, **options: Any) -> Answer:
        query = f"max_messages={max_messages}&wait_seconds={wait_s:g}"
        options = {"name": "reader", "query": query} | options
        return await self.call("GET", "/subscriptions/{name}/messages", **options)

    async def pulled(self, max_messages: int = 10, wait_s: float = 0) -> list[dict[str, Any]]:
        answer = await self.pull(max_messages, wait_s)
        assert answer.status == 200, answer.body
        return list(answer.json()["messages"])

    async def post(self, action: str, body: object, name: str = "reader") -> Answer:
        return await self.call("POST", f"/subscriptions/{{name}}/{action}", body, name=name)

    async def ack(self, *messages: Mapping[str, Any], by: str = "ack_id") -> Answer:
        return await self.post("ack", {f"{by}s": [message[by] for message in messages]})


def routes_of(
    consumer: Consumer, routing: Routing | None = None, trace: DeliveryRecorder | None = None
) -> list[Route]:
    """Return the routes of its forwarder, for the gateway to mount."""
    forwarder = consumer.forwarder
    routing = routing or forwarder.make_routing()
    acks = Acks(forwarder, NO_TASK_ACKS, routing)
    return routes(forwarder, consumer.history, acks, routing, trace)


class World(Consumer):
    """One forwarder and the fakes around it."""

    def __init__(
        self, store: FakeStore, metadata: FakeMetadata, forwarder: SubscribeForwarder
    ) -> None:
        super().__init__(forwarder, history=metadata)
        self.store = store
        self.metadata = metadata
        self.clock = metadata.clock


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


encode = msgspec.json.encode


def open_state_of(row: CursorState, offset: int) -> OpenState | None:
    for each in row.stepped_over:
        if each.offset == offset:
            return OpenState(each.reason.value, each.attempts, each.detail, None)
    return None


class NoOutbox:
    """The outbox of a forwarder of which no dead letter is written."""

    async def append(self, topic: Topic, items: Sequence[Item]) -> list[StoredPosition]:
        raise NotImplementedError


NO_OUTBOX = NoOutbox()


@contextmanager
def doomed() -> Iterator[list[tuple[Reader, OpenDelivery]]]:
    """Collect the deliveries to be dead-lettered of forwarders that have an outbox and are made
    meanwhile; no dead letter is written."""
    told: list[tuple[Reader, OpenDelivery]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeadLetterWriter, "add", lambda _, reader, dead: told.append((reader, dead)))
        yield told


@asynccontextmanager
async def world(
    store: FakeStore | None = None,
    metadata: FakeMetadata | None = None,
    *,
    history: FakeStore | None = None,
    partitions: int = 1,
    ack_deadline_s: float = 30.0,
    outbox: Outbox | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """Yield a running forwarder, which is ready unless `metadata` keeps it waiting."""
    store = store or FakeStore()
    given = metadata is not None
    metadata = metadata or FakeMetadata(
        topic(partitions), subscription(ack_deadline_s=ack_deadline_s)
    )
    for one in metadata.topics[TOPIC_UID].partitions:
        store.queues.setdefault(QueueId(TOPIC_UID, one.number, one.lane), FakeQueue())
    forwarder = SubscribeForwarder(
        store=store,
        catalog=metadata,
        feed=metadata,
        cursors=metadata,
        assignments=metadata,
        leases=metadata,
        forwarded=metadata,
        ack_key=ACK_KEY,
        history=history,
        settings=SubscribeSettings(**({"drain_s": 1.0} | settings)),
        outbox=outbox,
        clock=metadata.clock,
    )
    await forwarder.start()
    made = World(store, metadata, forwarder)
    try:
        if not given:
            await made.ready()
        yield made
    finally:
        await forwarder.close()
