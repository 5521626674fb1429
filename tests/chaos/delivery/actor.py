"""The base of the delivery load's actors.

An actor has a topic and a subscription of its own, a publisher that remembers what it was told,
workers, and a rule of its own to check at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
from packetboat.calls.pages import ACCEPT, join_ids
from packetboat.models import ItemFailure

from tests.chaos.delivery.caller import PAUSE_S, Caller, Reply
from tests.chaos.history import Act, Delivery, Drained, History, Outcome, Publish, Subscription
from tests.chaos.sometimes import Sometimes

ACK_DEADLINE_S = 5
DRAIN_S = 120.0


class Site(NamedTuple):
    """The addresses of the platform."""

    port: int
    token: str
    others: tuple[int, ...] = ()
    """Ports of other servers of it."""


class Message(NamedTuple):
    """A message of a pull, which was sent at `pulled_s` and whose answer was here at `got_s`."""

    ack_id: str | None
    message_id: str
    payload: str
    key: str | None
    attempt: int
    pulled_s: float
    got_s: float


class Actor:
    """`prepare`, `run` through whatever happens, `settle` when all is calm, `check`."""

    name: ClassVar[str] = ""
    workers: ClassVar[int] = 2
    subscription: ClassVar[dict[str, Any]] = {}
    topic: ClassVar[dict[str, Any]] = {}
    pause_s: ClassVar[float] = 0.05
    recorded: ClassVar[bool] = False
    """Whether porcupine's models say what is promised of its deliveries: a plain subscription,
    without seeks, filters and dead letters, acked and nacked by `tell`."""
    drains: ClassVar[bool] = True
    """Whether `done` means that every accepted message is acked."""

    def __init__(self, site: Site, dice: random.Random, sometimes: Sometimes) -> None:
        self.site = site
        self.dice = dice
        self.sometimes = sometimes
        self.published: dict[str, int] = {}
        """Payload → status of what was answered last; 0: nobody knows."""
        self.broken: list[str] = []
        self.history = History(self.name)
        self._leases: dict[str, Delivery] = {}
        self.lapses: Sequence[float] = ()
        """When what was not committed may have been forgotten, by the monotonic clock."""
        self._refused: Reply | None = None
        """The last answer to an ack or the like that was no 200."""
        self._numbers = itertools.count()

    @property
    def path(self) -> str:
        return f"/subscriptions/{self.name}"

    def caller(self) -> Caller:
        return Caller(*self.site)

    def broke(self, what: str) -> None:
        if len(self.broken) < 10:
            self.broken.append(f"{self.name}: {what}")

    # Methods that an actor may override.

    async def prepare(self, caller: Caller) -> None:
        await caller.until_ok("POST", "/topics", {"name": self.name, "partitions": 2} | self.topic)
        spec = {"name": self.name, "start": "earliest", "ack_deadline_seconds": ACK_DEADLINE_S}
        spec |= self.subscription
        await caller.until_ok("POST", f"/topics/{self.name}/subscriptions", spec)
        kind, deadline_s = spec.get("delivery", "at_least_once"), spec["ack_deadline_seconds"]
        self.history.add(Subscription(self.name, self.name, kind, deadline_s))

    def next_message(self) -> dict[str, Any]:
        return {"data": f"{self.name}-{next(self._numbers)}", "content_type": "text/plain"}

    def payload_of(self, data: Any) -> str:
        """Return the payload by which a message is known."""
        return str(data)

    def answered(self, payload: str, result: dict[str, Any]) -> None:
        """Take the result of one published message: a receipt or a problem."""
        self.published[payload] = 201 if "message_id" in result else 0

    def saw(self, message: dict[str, Any]) -> None:
        """Take a message of a pull as it was answered."""

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        """Handle a pull's messages as a worker does; the default acks all."""
        await self.ack(caller, messages)

    async def check(self, caller: Caller) -> None:
        """When everything was consumed: `broke` says what is wrong."""

    async def check_books(self, caller: Caller) -> None:
        """Check that the books balance (P9)."""
        books = await caller.until_ok("GET", f"{self.path}/reconciliation")
        if not books.body["balanced"]:
            self.broke(f"the books do not balance: {books.body}")

    def done(self) -> bool:
        """Return whether every published message, as far as is known, is settled."""
        return True

    # Methods that actors share.

    async def run(self, stopping: asyncio.Event) -> None:
        """Publishes and consumes until told to stop, then consumes what is left."""
        published, finished = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.workers):
                tasks.create_task(self._work(finished))
            extra = [tasks.create_task(each(published)) for each in self.extras()]
            await self._publish(stopping)
            published.set()
            await asyncio.gather(*extra)
            deadline_s = time.monotonic() + DRAIN_S
            while not self.done() and time.monotonic() < deadline_s:
                await asyncio.sleep(0.2)
            if not self.done():
                self.broke(f"not consumed in {DRAIN_S:g} s: {self.left()}")
            if self.drains:
                self.history.add(Drained(self.name, time.monotonic()))
            finished.set()

    def left(self) -> str:
        """Return the unsettled messages, for people."""
        return ""

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        """Further things that go on until the event: then the last publish was answered, or given
        up, and nothing more is to come."""
        return []

    async def _publish(self, stopping: asyncio.Event) -> None:
        caller = self.caller()
        while not stopping.is_set():
            batch = [self.next_message() for _ in range(self.dice.randint(1, 5))]
            payloads = [self.payload_of(message["data"]) for message in batch]
            await self.publish(caller, batch, payloads)
            await asyncio.sleep(self.pause_s)
        caller.close()

    async def publish(
        self, caller: Caller, batch: Sequence[dict[str, Any]], payloads: Sequence[str]
    ) -> None:
        """Publish messages in one request, sent once, and take the result of each."""
        self.published |= dict.fromkeys(payloads, 0)
        sent_s = time.monotonic()
        sent = [
            Publish(payload, message.get("key"), sent_s, topic=self.name)
            for message, payload in zip(batch, payloads, strict=True)
        ]
        self.history.add(*sent)
        reply = await caller.call(
            "POST", f"/topics/{self.name}/messages:batch", {"messages": batch}
        )
        if reply.status != 200:
            return
        for publish, result in zip(sent, reply.body["results"], strict=True):
            if "message_id" in result:
                publish.outcome, publish.answered_s = Outcome.ACKED, reply.answered_s
                publish.partition, publish.offset = result["partition"], result["offset"]
            self.answered(publish.payload, result)

    def accepted(self) -> set[str]:
        """Return the payloads that must come out in the end."""
        return {payload for payload, status in self.published.items() if status == 201}

    async def _work(self, finished: asyncio.Event) -> None:
        caller = self.caller()
        while not finished.is_set():
            messages = await self.pull(caller, self.dice.randint(1, 20))
            if messages:
                await self.handle(caller, messages)
        caller.close()

    async def pull(self, caller: Caller, count: int, wait_s: float = 1.0) -> list[Message]:
        """Pull messages, in JSON or as a page in binary."""
        reply = await caller.call(
            "GET",
            f"{self.path}/messages?max_messages={count}&wait_seconds={wait_s:g}",
            accept=self.dice.choice(("", ACCEPT)),
        )
        if reply.status != 200:
            await asyncio.sleep(PAUSE_S)
            return []
        return [self.got(each, reply.sent_s) for each in reply.body["messages"]]

    def got(self, each: dict[str, Any], asked_s: float) -> Message:
        """Return a message as it was answered, just now, to the request sent then."""
        self.saw(each)
        payload, got_s = self.payload_of(each["data"]), time.monotonic()
        if self.recorded:
            place = (each["partition"], each["offset"])
            delivery = Delivery(self.name, *place, payload, asked_s, got_s, each["message_id"])
            delivery.lease = each["ack_id"] or ""
            self._leases[delivery.lease] = delivery
            self.history.add(delivery)
        return Message(
            each["ack_id"],
            each["message_id"],
            payload,
            each["key"],
            each["attempt"],
            asked_s,
            got_s,
        )

    async def ack(self, caller: Caller, messages: Sequence[Message]) -> list[bool] | None:
        """Ack messages; returns whether each was accepted, None when nobody knows."""
        return await self.tell(caller, "ack", messages)

    async def ack_surely(self, caller: Caller, messages: Sequence[Message]) -> list[bool]:
        """Ack messages; the request is repeated until it is answered."""
        deadline_s = time.monotonic() + DRAIN_S
        while (told := await self.ack(caller, messages)) is None:
            self.repeated_ack()
            assert time.monotonic() < deadline_s, (
                f"{self.name}: no answer to an ack in {DRAIN_S:g} s, at last {self._refused}"
            )
        return told

    def repeated_ack(self) -> None:
        """The answer of an ack was lost, or was no 200."""

    async def tell(
        self, caller: Caller, what: str, messages: Sequence[Message], **extra: Any
    ) -> list[bool] | None:
        """Send a nack, release, reject or modify_ack_deadline; returns as `ack` does."""
        given = [message.ack_id or "" for message in messages]
        joined = join_ids(given)
        body = {"ack_ids": joined.texts} | extra
        acts = self._acts(what, messages)
        reply = await caller.call("POST", f"{self.path}/{what}", body)
        if reply.status != 200:
            self._refused = reply
            return None
        found = msgspec.convert(reply.body["results"], list[ItemFailure])
        failed = {failure.index for failure in joined.failures(found, given)}
        for index, act in enumerate(acts):
            act.answered_s = reply.answered_s
            act.outcome = Outcome.NOT_DONE if index in failed else Outcome.ACKED
        return [index not in failed for index in range(len(messages))]

    def _acts(self, what: str, messages: Sequence[Message]) -> list[Act]:
        """Return an act for each message, of unknown outcome yet; none where nothing is
        recorded.
        """
        if not self.recorded:
            return []
        assert what in ("ack", "nack"), f"{self.name}: nothing is promised of {what}"
        acts = [Act(what, time.monotonic()) for _ in messages]
        for message, act in zip(messages, acts, strict=True):
            self._leases[message.ack_id or ""].acts.append(act)
        return acts
