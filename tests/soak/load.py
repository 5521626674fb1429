"""The mixed load of the soak: each actor publishes to a topic of its own, and consumes it.

The actors differ in how they publish (single, in batches, with a delay) and how messages reach
them (pulls, streams, pushes, dead letters). All use the SDK, which retries what the kills cut off.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import ClassVar

from packetboat import AsyncClient, NotDone, PacketboatError, Push, Retention
from packetboat.models import Message, Outgoing, SubscriptionSettings

from tests.soak.books import Book

KEPT_S = 600
"""Seconds for which retained messages are kept, the least that there is."""
BODY_BYTES = 1000
PAUSE_S = 0.5
DISCARD_EVERY_S = 60.0
REJECTED = "soak"


def padded(body: bytes) -> bytes:
    """Return a body of full size."""
    return body + b" ".ljust(BODY_BYTES - len(body), b".")


def unpadded(body: bytes) -> bytes:
    """Return the part of a body that its book knows."""
    return b" ".join(body.split(b" ", 2)[:2])


class Actor:
    """One topic with one subscription of the same name, and what is done to both."""

    name = ""
    per_s = 10.0
    retention = Retention()
    settings: ClassVar[SubscriptionSettings] = {}

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.book = Book(self.name)
        self.errors: dict[str, int] = {}

    async def prepare(self) -> None:
        """Create all that the actor needs."""
        await self.create(self.settings)

    async def create(self, settings: SubscriptionSettings) -> None:
        """Create the topic, and its subscription with these settings."""
        await self.client.topics.create(self.name, partitions=4, retention=self.retention)
        await self.client.subscriptions.create(self.name, self.name, start="earliest", **settings)

    async def publish(self) -> None:
        """Publish once; the book has the outcome."""
        body = self.book.next_body()
        await self.ended(body, self.client.publish(self.name, padded(body)))

    def consumers(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """Return loops that consume until they are cancelled."""
        return (self.pull, self.pull)

    async def ended(self, body: bytes, receipt: Awaitable[object]) -> None:
        """Await the end of a publish, and write it down."""
        try:
            await receipt
        except PacketboatError as error:
            self.failed(body, error)
        else:
            self.book.stored(body)

    def failed(self, body: bytes, error: PacketboatError) -> None:
        """Write down a publish that failed."""
        self.noted(error)
        if isinstance(error, NotDone):
            self.book.not_stored(body)
        else:
            self.book.may_be_stored(body)

    def noted(self, error: Exception) -> None:
        """Count an error by its kind."""
        kind = type(error).__name__
        self.errors[kind] = self.errors.get(kind, 0) + 1

    async def pull(self) -> None:
        """Pull and settle."""
        while True:
            try:
                messages = await self.client.pull(self.name, max_messages=100, wait_seconds=5)
                if messages:
                    await self.settle(messages)
            except PacketboatError as error:
                self.noted(error)
                await asyncio.sleep(PAUSE_S)

    async def settle(self, messages: Sequence[Message]) -> None:
        """Ack messages. They have arrived once they are here: an ack that fails repeats them."""
        for message in messages:
            self.book.received(unpadded(message.body))
        await self.client.ack(self.name, messages)


class Singles(Actor):
    """Single messages, pulled; they go once they are acked."""

    name = "singles"
    per_s = 60.0


class Batches(Actor):
    """Batches, streamed; they are kept for a while."""

    name = "batches"
    per_s = 4.0
    size = 64
    retention = Retention(mode="retain", seconds=KEPT_S)

    async def publish(self) -> None:
        bodies = [self.book.next_body() for _ in range(self.size)]
        messages = [Outgoing(data=padded(body)) for body in bodies]
        try:
            receipts = await self.client.publish_batch(self.name, messages)
        except PacketboatError as error:
            for body in bodies:
                self.failed(body, error)
            return
        for body, receipt in zip(bodies, receipts, strict=True):
            if isinstance(receipt, PacketboatError):
                self.failed(body, receipt)
            else:
                self.book.stored(body)

    def consumers(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (self.stream,)

    async def stream(self) -> None:
        """Read one stream, and ack what has come together."""
        waiting: list[Message] = []
        while True:
            try:
                async with aclosing(
                    self.client.stream(self.name, max_outstanding_messages=1000)
                ) as incoming:
                    async for message in incoming:
                        waiting.append(message)
                        if len(waiting) >= self.size:
                            acked, waiting = waiting, []
                            await self.settle(acked)
            except PacketboatError as error:
                self.noted(error)
                waiting = []
                await asyncio.sleep(PAUSE_S)


class Delayed(Actor):
    """Messages that are due some seconds later."""

    name = "delayed"
    delays_s = itertools.cycle((1, 3, 10, 30))

    async def publish(self) -> None:
        body, delay_s = self.book.next_body(), next(self.delays_s)
        receipt = self.client.publish(self.name, padded(body), delay_seconds=delay_s)
        await self.ended(body, receipt)


class Pushed(Actor):
    """Messages that are pushed to an endpoint of this process."""

    name = "pushed"
    per_s = 15.0

    async def prepare(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/in"
        push = Push(url=url, verify=False, signing=(), disable_after_seconds=None)
        await self.create({"type": "push", "push": push})

    def consumers(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return ()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, ValueError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                told = json.loads(await reader.readexactly(length))
                for message in told["messages"]:
                    self.book.received(unpadded(_body_of(message)))
                writer.write(b"HTTP/1.1 204 x\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        writer.close()


def _body_of(message: dict[str, str]) -> bytes:
    encoded = message.get("data_base64")
    return message["data"].encode() if encoded is None else base64.b64decode(encoded)


class Rejected(Actor):
    """Messages that consumers reject, and that arrive as dead letters; these are discarded."""

    name = "rejected"
    letters = "rejected-letters"
    settings: ClassVar[SubscriptionSettings] = {"dead_letter_topic": letters}

    async def prepare(self) -> None:
        kept = Retention(mode="consume", seconds=KEPT_S)
        await self.client.topics.create(self.letters, partitions=2, retention=kept)
        await self.client.subscriptions.create(self.letters, self.letters, start="earliest")
        await super().prepare()

    def consumers(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (self.pull, self.read_letters, self.discard)

    async def settle(self, messages: Sequence[Message]) -> None:
        await self.client.reject(self.name, messages, reason=REJECTED)

    async def read_letters(self) -> None:
        """Take the dead letters: a rejected message has arrived when it is one."""
        while True:
            try:
                found = await self.client.pull(self.letters, max_messages=100, wait_seconds=5)
                for message in found:
                    self.book.received(unpadded(message.body))
                if found:
                    await self.client.ack(self.letters, found)
            except PacketboatError as error:
                self.noted(error)
                await asyncio.sleep(PAUSE_S)

    async def discard(self) -> None:
        """Discard the rows of dead letters now and then, as an operator does."""
        while True:
            await asyncio.sleep(DISCARD_EVERY_S)
            with suppress(PacketboatError):
                while not (
                    await self.client.dead_letters.discard(self.name, filter="true")
                ).complete:
                    pass


ACTORS: tuple[type[Actor], ...] = (Singles, Batches, Delayed, Pushed, Rejected)


class Load:
    """All actors, with one client; their rates are multiplied by `scale`."""

    def __init__(self, client: AsyncClient, scale: float) -> None:
        self.actors = [actor(client) for actor in ACTORS]
        self._scale = scale
        self._publishers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Future[None]] = []
        self._out: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Create everything, and begin."""
        for actor in self.actors:
            await actor.prepare()
            for consume in actor.consumers():
                self._consumers.append(asyncio.ensure_future(consume()))
            self._publishers.append(asyncio.create_task(self._publish(actor)))

    async def finish(self, timeout_s: float) -> None:
        """End publishing, and wait until everything has arrived, at most `timeout_s`."""
        for task in self._publishers:
            task.cancel()
        await asyncio.gather(*self._publishers, return_exceptions=True)
        if self._out:
            await asyncio.wait(self._out)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(actor.book.missing for actor in self.actors):
                    await asyncio.sleep(0.2)
        for task in self._consumers:
            task.cancel()
        ended = await asyncio.gather(*self._consumers, return_exceptions=True)
        for error in ended:
            if not isinstance(error, asyncio.CancelledError):
                raise error if isinstance(error, BaseException) else AssertionError("it ended")

    async def _publish(self, actor: Actor) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            due_s = max(due_s + 1 / (actor.per_s * self._scale), loop.time() - 1)
            task = asyncio.create_task(actor.publish())
            self._out.add(task)
            task.add_done_callback(self._out.discard)
