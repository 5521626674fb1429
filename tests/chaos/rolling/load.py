"""Publishers and consumers by the SDK, which do as applications do and nothing else.

publishers   `key-N`: one after the other with a key; `loose-N`: without; `late`: with
             a delay. By turns by way of the balancer, and with the publish forwarders' URLs
consumers    of `pulled` (ordered) and `exact` (exactly once), several each, and, where there is a
             balancer, of `streamed`: a worker asks the gateway for its subscription, too
the gateway  is asked for a topic and a subscription that were not there before: see `probe`
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from packetboat.aio.client import AsyncClient
from packetboat.credentials import Credentials, StaticToken
from packetboat.errors import PacketboatError
from packetboat.models import Message, Retention
from packetboat.options import Options
from packetboat.worker import Worker

from tests.chaos.rolling.books import Books, Name, Reader

TOPIC = "orders"
PARTITIONS = 8
KEYS = 6
LOOSE = 2
CONSUMERS = 3
"""The consumers of each subscription that is pulled."""
PAUSE_S = 0.1
"""Seconds between two messages of a publisher."""
DELAY_S = 1.5
LEASE_S = 60
"""Longer than anything here takes: what comes again comes because its lease was lost."""
RETRY_FOR_S = 60.0
ALL_IN_S = 120.0
"""Seconds consumers may take to come to the end."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Addresses:
    """URLs. `balancer`: in front of all; None where there is none."""

    balancer: str | None
    publish: Sequence[str]
    subscribe: Sequence[str]
    gateway: str


class SdkLoad:
    """Use `at_work`; then `wrong` has what must not be."""

    def __init__(self, at: Addresses, token: str, credentials: Sequence[Credentials] = ()) -> None:
        """Make the load; `credentials`: those of the clients by turns, where they have not
        all the token.
        """
        self.books = Books()
        self.wrong: list[str] = []
        self._credentials = itertools.cycle(credentials or (StaticToken(token),))
        self._clients: list[AsyncClient] = []
        direct = self._client(*at.publish)
        self._publishing = [direct, self._client(at.balancer) if at.balancer else direct]
        direct = self._client(*at.subscribe)
        self._consuming = [direct, self._client(at.balancer) if at.balancer else direct]
        self._control = self._client(at.balancer or at.gateway)
        self._has_balancer = at.balancer is not None
        self._is_publishing = True
        self._tasks: list[asyncio.Task[None]] = []

    def _client(self, *urls: str) -> AsyncClient:
        client = AsyncClient.from_options(
            Options(
                urls=urls,
                credentials=next(self._credentials),
                retry_for_s=RETRY_FOR_S,
                trust_env=False,
            )
        )
        self._clients.append(client)
        return client

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[SdkLoad]:
        """Publish and consume until the block ends; then consume and judge everything."""
        try:
            await self._prepare()
            publishers = [self._run(self._publisher(f"key-{n}", n)) for n in range(KEYS)]
            publishers += [self._run(self._publisher(f"loose-{n}", n)) for n in range(LOOSE)]
            publishers.append(self._run(self._publisher("late", 0, delay_seconds=DELAY_S)))
            for number in range(CONSUMERS):
                self._run(self._puller("pulled", number))
                self._run(self._puller("exact", number))
            if "streamed" in self.books.readers:
                self._run(self._streamer("streamed"))
            yield self
            self._is_publishing = False
            await asyncio.gather(*publishers)
            await self._until_consumed()
            self.wrong += [f"{task.get_name()}: {task.exception()!r}" for task in self._dead()]
            self.wrong += self.books.verdict(await self._log())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for client in self._clients:
                await client.close()

    async def _prepare(self) -> None:
        retention = Retention(mode="retain")  # The whole log is read at the end.
        await self._control.topics.create(TOPIC, partitions=PARTITIONS, retention=retention)
        kinds: dict[str, dict[str, Any]] = {
            "pulled": {"ordered": True},
            "exact": {"delivery": "exactly_once"},
        }
        if self._has_balancer:
            kinds["streamed"] = {}
        for name, settings in kinds.items():
            await self._control.subscriptions.create(
                TOPIC, name, ack_deadline_seconds=LEASE_S, start="earliest", **settings
            )
            self.books.readers[name] = Reader(ordered=settings.get("ordered", False))

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=work.__name__)
        self._tasks.append(task)
        return task

    def _dead(self) -> list[asyncio.Task[None]]:
        """Return the applications that an error has ended."""
        ended = [task for task in self._tasks if task.done() and not task.cancelled()]
        return [task for task in ended if task.exception() is not None]

    async def _until_consumed(self) -> None:
        """Wait until all is consumed, by the books and at the server, or the time is over."""
        deadline_s = time.monotonic() + ALL_IN_S
        while self.books.missing() and time.monotonic() < deadline_s:
            await asyncio.sleep(0.1)
        for name in self.books.readers:
            while left := await self._left(name):
                if time.monotonic() > deadline_s:
                    self.wrong.append(f"{name}: {left} are not acked at the end")
                    break
                await asyncio.sleep(0.1)

    async def _left(self, subscription: str) -> int:
        backlog = await self._consuming[0].subscriptions.backlog(subscription)
        return backlog.messages

    # Applications.

    async def _publisher(self, who: str, turn: int, **settings: Any) -> None:
        client = self._publishing[turn % 2]
        key = who if who.startswith("key-") else None
        for number in itertools.count():
            if not self._is_publishing:
                return
            name, began_s = (who, number), time.monotonic()
            try:
                await client.publish(TOPIC, json.dumps(name), key=key, **settings)
            except PacketboatError as error:
                self.books.failed.append(f"{name}: {error!r}")
            else:
                self.books.receipt(name, began_s)
            await asyncio.sleep(PAUSE_S)

    async def _puller(self, subscription: str, number: int) -> None:
        client = self._consuming[number % 2]
        while True:
            messages = await self._tried(
                "pull",
                lambda: client.pull(subscription, max_messages=20, wait_seconds=5),
            )
            if messages:
                await self._handle(client, subscription, messages)

    async def _streamer(self, subscription: str) -> None:
        reader = self.books.readers[subscription]

        async def handle(message: Message) -> None:
            reader.handle(_name(message), message.attempt)

        await Worker(self._consuming[1], subscription, source="stream").arun(handle)

    async def _handle(
        self, client: AsyncClient, subscription: str, messages: Sequence[Message]
    ) -> None:
        reader = self.books.readers[subscription]
        names = {message.message_id: _name(message) for message in messages}
        for message in messages:
            reader.handle(names[message.message_id], message.attempt)
        reader.asked.update(names.values())
        settled = await self._tried("ack", lambda: client.ack(subscription, messages))
        if settled is None:
            return
        refused = {failure.index for failure in settled.failures}
        acked = [message for at, message in enumerate(messages) if at not in refused]
        reader.ack(names[message.message_id] for message in acked)
        for failure in settled.failures:
            self.books.refused.append(f"{subscription}: {failure}")

    async def _tried(self, verb: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """None where the SDK gave up: what may have been leased or acked is not known."""
        try:
            return await call()
        except PacketboatError as error:
            self.books.refused.append(f"{verb}: {error!r}")
            return None

    # The operator's probes.

    async def probe(self) -> None:
        """Make, use and delete a topic at any serving process."""
        name = f"probe-{uuid.uuid4().hex[:8]}"
        await self._control.topics.create(name, partitions=2)
        await self._control.subscriptions.create(name, name, start="earliest")
        wanted = {
            (await self._publishing[n % 2].publish(name, str(n), idempotency_key=str(n))).message_id
            for n in range(4)
        }
        consumer = self._consuming[0]
        got: set[str] = set()
        async with asyncio.timeout(RETRY_FOR_S):
            while got != wanted:
                messages = await consumer.pull(name, max_messages=10, wait_seconds=5)
                assert got.isdisjoint(message.message_id for message in messages)
                got |= {message.message_id for message in messages}
                if messages:
                    settled = await consumer.ack(name, messages)
                    assert not settled.failures, settled
        await self._control.topics.delete(name)

    async def _log(self) -> list[tuple[int, list[Name]]]:
        """Return the messages of each partition, in the order of offsets."""
        client, found = self._consuming[0], []
        for partition in range(PARTITIONS):
            messages = client.messages.replay(TOPIC, partition)
            found.append((partition, [_name(message) async for message in messages]))
        return found


def _name(message: Any) -> Name:
    who, number = message.json()
    return str(who), int(number)
