"""A subscription with a dead-letter topic on a real Postgres and real store nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from edge.asgi import AUTHORISED, CALLER, Route
from edge.problem import Problem
from metadata.catalog import Catalog
from metadata.database import Database
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.leases import LeaseRepository
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.locks.locks import LockRepository
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.subscriptions.redrives import RedriveRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.topics import TopicRepository
from metadata.types import RetryPolicy, SubscriptionSpec, Topic, TopicSpec
from outbox import Item, Outbox
from scheduler.redriving import Redriving
from scheduler.term import Term
from store_nodes.client import StoreClient
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode
from subscribe_forwarder.api.dead_letters import DeadLetters
from subscribe_forwarder.api.parked import ParkedKeys
from subscribe_forwarder.api.redrives import Redrives
from subscribe_forwarder.delivery.dead_letter_writer import DeadLetterWriter
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.unit.subscribe_forwarder.subscribe_support import ACK_KEY, Answer, Consumer, encode

ONCE = RetryPolicy(0.0, 0.0, 1)
LETTERS = "/subscriptions/{name}/dead_letters"
REDRIVES = "/subscriptions/{name}/redrives"


class Yard:
    """Topics `orders` and, if wanted, `graves`; subscriptions of it by name."""

    def __init__(self, database: Database, client: StoreClient, tenant_id: bytes) -> None:
        self.database = database
        self.client = client
        self.tenant_id = tenant_id
        self.outbox = Outbox(client)
        self.topics: dict[str, Topic] = {}
        self.published = 0

    @classmethod
    async def open(cls, database: Database, client: StoreClient, *topics: str) -> Yard:
        yard = cls(database, client, new_uid())
        await TenantRepository(database).ensure(yard.tenant_id, f"tenant-{yard.tenant_id.hex()}")
        for name in topics or ("orders", "graves"):
            await yard.make_topic(name)
        return yard

    async def make_topic(self, name: str) -> None:
        topics = TopicRepository(self.database)
        made = await topics.create(self.tenant_id, TopicSpec(name), [0])
        await self.client.create(0, QueueId(made.uid, 0), 0, b"test")
        self.topics[name] = await topics.activate(self.tenant_id, made.uid)

    async def subscribe(self, name: str = "reader", topic: str = "orders", **spec: Any) -> None:
        given = {"dead_letter_topic": "graves", "retry": ONCE} | spec
        of = self.topics[topic]
        await SubscriptionRepository(self.database).create(
            self.tenant_id, of.uid, SubscriptionSpec(name, **given), {(0, 0): 0}
        )

    async def publish(self, *messages: Message, topic: str = "orders") -> None:
        items = []
        for message in messages:
            self.published += 1
            items.append(Item(message, b"test %d" % self.published))
        await self.outbox.append(self.topics[topic], items)

    async def stored(self, topic: str = "graves") -> list[Message]:
        """Return every message of the topic, in order."""
        queue = QueueId(self.topics[topic].uid, 0)
        end = (await self.client.offsets(0, queue)).end
        found: list[Message] = []
        while len(found) < end:
            fetched = await self.client.fetch(0, queue, len(found), 1 << 20, min_end=end)
            for entry in fetched.entries:
                found += decode(entry.batch)
        return found

    @asynccontextmanager
    async def forwarder(self) -> AsyncIterator[Reader]:
        database = self.database
        feed = ChangeFeed(database, poll_every_s=0.1)
        catalog = Catalog(TopicRepository(database), SubscriptionRepository(database), feed)
        forwarder = SubscribeForwarder(
            store=self.client,
            catalog=catalog,
            feed=feed,
            cursors=CursorRepository(database),
            assignments=AssignmentRepository(database),
            leases=LeaseRepository(database),
            forwarded=ForwardedRepository(database),
            ack_key=ACK_KEY,
            settings=SubscribeSettings(drain_s=2.0, lazy_flush_s=0.05),
            outbox=self.outbox,
        )
        dead_letter_writer = forwarder.dead_letter_writer
        assert dead_letter_writer is not None
        await feed.start()
        await forwarder.start()
        letters, redrives = DeadLetterRepository(database), RedriveRepository(database)
        more = [
            *DeadLetters(catalog, self.client, letters).routes(),
            *Redrives(catalog, letters, redrives).routes(),
            *ParkedKeys(forwarder, dead_letter_writer, forwarder.make_routing()).routes(),
        ]
        reader = Reader(forwarder, self.tenant_id, more, dead_letter_writer)
        try:
            async with asyncio.timeout(15):
                await reader.ready()
            yield reader
        finally:
            await forwarder.close()
            await feed.close()

    @asynccontextmanager
    async def scheduler(self) -> AsyncIterator[Redriving]:
        """Yield the redriving of a scheduler that leads."""
        database = self.database
        locks = LockRepository(database)
        lock = await locks.take("scheduler", new_uid())
        assert lock is not None
        feed = ChangeFeed(database)
        await feed.start()
        redriving = Redriving(
            self.client,
            self.outbox,
            RedriveRepository(database),
            DeadLetterRepository(database),
            TopicRepository(database),
            lambda: lock,
            version=feed.version,
            look_every_s=0.05,
        )
        term = Term()
        term.spawn(redriving.run(term))
        try:
            yield redriving
        finally:
            await term.end()
            await feed.close()
            await locks.release(lock)


class Reader(Consumer):
    """A consumer and operator of one forwarder."""

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        tenant_id: bytes,
        more: list[Route],
        dead_letter_writer: DeadLetterWriter,
    ) -> None:
        super().__init__(forwarder, tenant_id)
        self.dead_letter_writer = dead_letter_writer
        self._more = {(route.method, route.path): route.handler for route in more}

    async def ask(
        self, method: str, path: str, body: object = None, *, query: str = "", **params: str
    ) -> Answer:
        answer = Answer(0, {}, b"")

        async def receive() -> dict[str, Any]:
            raw = b"" if body is None else encode(body)
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
            else:
                answer.body += message["body"]

        scope: dict[str, Any] = {
            "type": "http",
            "packetboat.tenant": self.tenant_id,
            CALLER: AUTHORISED,
            "path_params": {"name": "reader"} | params,
            "query_string": query.encode(),
            "headers": [],
        }
        try:
            await self._more[method, path](scope, receive, send)
        except Problem as problem:
            return Answer(problem.status, {}, problem.to_json())
        return answer

    async def letters(self, query: str = "", name: str = "reader") -> list[dict[str, Any]]:
        answer = await self.ask("GET", LETTERS, query=query, name=name)
        assert answer.status == 200, answer.body
        return list(answer.json()["dead_letters"])

    async def dead(self, count: int, name: str = "reader") -> list[dict[str, Any]]:
        """Return the dead letters once there are `count` of them."""
        found: list[dict[str, Any]] = []

        async def enough() -> bool:
            found[:] = await self.letters("page_size=1000", name)
            return len(found) >= count

        await until(enough)
        return found

    async def fail(self, count: int, name: str = "reader", **how: Any) -> None:
        """Pull `count` messages and nack them."""
        left = count
        while left:
            answer = await self.pull(min(left, 1000), wait_s=5, name=name)
            if answer.status == 503:
                await asyncio.sleep(0.1)  # a machine that stood still has lost its leases
                continue
            pulled = answer.json()["messages"]
            assert pulled
            ids = {"ack_ids": [message["ack_id"] for message in pulled]}
            answer = await self.post("nack", ids | {"delay_seconds": 0} | how, name)
            assert answer.json()["done"] == len(pulled), answer.body
            left -= len(pulled)

    async def redrive(self, body: object) -> dict[str, Any]:
        answer = await self.ask("POST", LETTERS + ":redrive", body)
        assert answer.status == 202, answer.body
        return dict(answer.json())

    async def redrive_is(self, redrive: dict[str, Any]) -> dict[str, Any]:
        answer = await self.ask("GET", REDRIVES + "/{redrive}", redrive=redrive["redrive_id"])
        return dict(answer.json())

    async def ended(self, redrive: dict[str, Any]) -> dict[str, Any]:
        """Return the redrive once it is over."""
        seen: list[dict[str, Any]] = [{}]

        async def over() -> bool:
            seen[0] = await self.redrive_is(redrive)
            return seen[0]["state"] not in ("running", "cancelling")

        await until(over)
        return seen[0]


async def until(condition: Callable[[], Any], seconds: float = 15) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(0.02)
            return
    raise AssertionError("it did not come true")
