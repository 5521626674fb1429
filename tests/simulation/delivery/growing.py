"""Topics that grow while their messages are on the way.

Keys stay in order, and a delayed message is published as the last answered change says, wherever
its partition went.

Only answers count: an ack, a cancel or a reschedule with an unknown outcome excuses its message
from the rule, until a repeat of it is answered.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar

from tests.chaos.delivery import keyed
from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import PAUSE_S, Caller

MOST_PARTITIONS = 12
GREW = "a topic grew while messages were on the way"
CANCELLED = "a delayed message was cancelled about when it was due"
RESCHEDULED = "a delayed message was rescheduled about when it was due"
TOO_LATE = "a change of a delayed message came too late"
WAITING = "all that was before a growth was out, and more of its keys came after it"
SITUATIONS = (GREW, CANCELLED, RESCHEDULED, TOO_LATE, WAITING)

HOUR_S = 3600
ORDERED_KEYS = 12


async def grow(actor: Actor, published: asyncio.Event) -> None:
    """Give the actor's topic more partitions, again and again."""
    caller = actor.caller()
    count = 1
    while not published.is_set() and count < MOST_PARTITIONS:
        await asyncio.sleep(actor.dice.uniform(0.3, 1.0))
        count += actor.dice.choice((1, 1, 2))
        await caller.until_ok("POST", f"/topics/{actor.name}:grow", {"partitions": count})
        actor.sometimes.hit(GREW)
    caller.close()


class Ordered(keyed.Keyed):
    """Keys in order.

    A consumer whose ack is not answered gives its message up, as one that dies does: messages
    without a committed ack come again, and must not come after a later one of their key.

    One earlier bug is played: one message of each key is out when the topic grows, and the next
    comes after the growth. Then all of them are acked at once, and Postgres stalls, so that nothing
    but these acks, which are not committed, stands between the later ones and a pull.
    """

    name: ClassVar[str] = "ordered"
    workers: ClassVar[int] = 4
    recorded: ClassVar[bool] = False
    topic: ClassVar[dict[str, Any]] = {"partitions": 1}
    # A message that is held until the topic has grown is out for this time.
    subscription: ClassVar[dict[str, Any]] = keyed.Keyed.subscription | {"ack_deadline_seconds": 8}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._maybe: set[str] = set()
        """The messages acked in a request whose outcome nobody knows."""
        self._turns = {f"k{key}": asyncio.Lock() for key in range(ORDERED_KEYS)}
        """The locks of the keys: their holder publishes messages of the key."""
        self._last: Counter[str] = Counter()
        """The number of messages published of each key."""
        self._acks_go = asyncio.Event()
        self._acks_go.set()
        self._out = 0
        """The number of messages that are held until then."""
        self._late_acks: list[asyncio.Task[None]] = []

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._play]

    async def _publish(self, stopping: asyncio.Event) -> None:
        await asyncio.gather(*(self._publish_key(key, stopping) for key in self._turns))

    async def _publish_key(self, key: str, stopping: asyncio.Event) -> None:
        caller = self.caller()
        while not stopping.is_set():
            async with self._turns[key]:
                await self._publish_next(caller, key)
            await asyncio.sleep(self.dice.uniform(1, 3) * self.pause_s)
        caller.close()

    async def _publish_next(self, caller: Caller, key: str) -> None:
        payload = f"{key} {self._last[key]}"
        self._last[key] += 1
        message = {"data": payload, "content_type": "text/plain", "key": key}
        await self.publish(caller, [message], [payload])

    async def _publish_each(self) -> None:
        callers = [self.caller() for _ in self._turns]
        each = zip(callers, self._turns, strict=True)
        await asyncio.gather(*(self._publish_next(caller, key) for caller, key in each))
        for caller in callers:
            caller.close()

    async def _play(self, published: asyncio.Event) -> None:
        caller = self.caller()
        count = 1
        while not published.is_set() and count < MOST_PARTITIONS:
            await asyncio.sleep(self.dice.uniform(0.2, 0.6))
            async with AsyncExitStack() as stack:
                for turn in self._turns.values():
                    await stack.enter_async_context(turn)
                await self._until(self.done)
                self._acks_go.clear()
                self._out = 0
                await self._publish_each()
                await self._until(lambda: self._out >= len(self._turns))
                count += self.dice.choice((2, 3, 4))
                await caller.until_ok("POST", f"/topics/{self.name}:grow", {"partitions": count})
                self.sometimes.hit(GREW)
                await self._publish_each()
            await asyncio.sleep(self.dice.uniform(0.3, 0.8))
            self.sometimes.hit(WAITING, self._out >= len(self._turns))
            await asyncio.sleep(0.05)
            self._acks_go.set()
        caller.close()
        self._acks_go.set()
        await asyncio.gather(*self._late_acks)

    async def _until(self, true: Callable[[], bool]) -> None:
        """Amid faults it may take longer than anybody waits here."""
        until_s = time.monotonic() + 2
        while not true() and time.monotonic() < until_s:
            await asyncio.sleep(0.05)

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            self._got.append((message.pulled_s, message.got_s, message.payload))
        if self._acks_go.is_set():
            await asyncio.sleep(self.dice.uniform(0, 0.1))
            await self._settle(caller, messages)
        else:  # and the worker goes on
            self._out += len(messages)
            self._late_acks.append(asyncio.create_task(self._settle_later(messages)))

    async def _settle_later(self, messages: Sequence[Message]) -> None:
        await self._acks_go.wait()
        caller = self.caller()
        await self._settle(caller, messages)
        caller.close()

    async def _settle(self, caller: Caller, messages: Sequence[Message]) -> None:
        now_s = time.monotonic()
        for message in messages:
            self._acking.setdefault(message.payload, now_s)
        told = await self.ack(caller, messages)
        if told is None:
            self._maybe |= {message.payload for message in messages}
        else:
            self._acked |= {m.payload for m, ok in zip(messages, told, strict=True) if ok}

    async def pull(self, caller: Caller, count: int, wait_s: float = 1.0) -> list[Message]:
        return await super().pull(caller, min(count, 2), wait_s)

    def done(self) -> bool:
        return self.accepted() <= self._acked | self._maybe


class Delayed(Actor):
    """Messages that wait for their time, and are cancelled or rescheduled about when it comes."""

    name: ClassVar[str] = "delayed"
    topic: ClassVar[dict[str, Any]] = {"partitions": 1}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._ids: dict[str, str] = {}
        """Payload → the id it was accepted under, of what is to be changed."""
        self._due_s: dict[str, float] = {}
        self._withdrawn: dict[str, str] = {}
        """Payload → by which answered change it is not to be published during the run."""
        self._excused: set[str] = set()
        """The messages with an unknown outcome."""
        self._places: dict[str, set[tuple[int, int]]] = {}
        """Payload → partitions and offsets that it came from."""
        self._acked: set[str] = set()
        self._changing: set[str] = set()
        self._changes: list[asyncio.Task[None]] = []

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [lambda published: grow(self, published)]

    async def _publish(self, stopping: asyncio.Event) -> None:
        await asyncio.gather(*(super(Delayed, self)._publish(stopping) for _ in range(2)))

    def next_message(self) -> dict[str, Any]:
        delay_s = self.dice.uniform(0.3, 2.0)
        message = super().next_message() | {"delay_seconds": delay_s}
        if self.dice.random() < 0.5:
            message["key"] = f"k{self.dice.randrange(5)}"
        self._due_s[message["data"]] = time.monotonic() + delay_s
        return message

    def answered(self, payload: str, result: dict[str, Any]) -> None:
        super().answered(payload, result)
        if "message_id" in result and self.dice.random() < 0.9:
            self._ids[payload] = result["message_id"]
            self._changing.add(payload)
            self._changes.append(asyncio.create_task(self._change(payload)))

    async def _change(self, payload: str) -> None:
        """Take it back about when it is due; 409: it is published."""
        at_s = self._due_s[payload]
        # A scheduler asks the log, and copies the message, some round trips after it is due. Where
        # each takes a tenth of a second, and others wait before it, that is up to some seconds.
        at_s += self.dice.uniform(*((-0.05, 0.3) if self.dice.random() < 0.25 else (0.3, 2.0)))
        await asyncio.sleep(max(0, at_s - time.monotonic()))
        caller, path = self.caller(), f"/topics/{self.name}/messages/{self._ids[payload]}"
        cancels = self.dice.random() < 0.6
        while True:
            if cancels:
                reply = await caller.call("DELETE", path)
            else:
                reply = await caller.call("PATCH", path, {"delay_seconds": HOUR_S})
            if reply.ok:
                self._withdrawn[payload] = "cancelled" if cancels else "rescheduled"
                self.sometimes.hit(CANCELLED if cancels else RESCHEDULED)
            if reply.ok or reply.status == 409:
                break
            if reply.status == 404:
                self._excused.add(payload)  # a try whose answer was lost did it, or it is trimmed
                break
            if reply.status not in (0, 429) and reply.status < 500:
                self.broke(f"a change of {payload!r} was answered {reply.status}: {reply.body}")
                break
            await asyncio.sleep(PAUSE_S)
        self.sometimes.hit(TOO_LATE, reply.status == 409)
        self._changing.discard(payload)
        caller.close()

    def saw(self, message: dict[str, Any]) -> None:
        place = (message["partition"], message["offset"])
        self._places.setdefault(self.payload_of(message["data"]), set()).add(place)

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        # Nobody minds whether it is acked: what is looked at is what comes.
        await self.ack(caller, messages)
        self._acked |= {message.payload for message in messages}

    def done(self) -> bool:
        return not self._changing and not self._open()

    def left(self) -> str:
        return f"{sorted(self._open())[:5]}, {sorted(self._changing)[:5]}"

    def _open(self) -> set[str]:
        return self.accepted() - self._acked - self._excused - self._withdrawn.keys()

    async def check(self, caller: Caller) -> None:
        await asyncio.gather(*self._changes)
        for payload, how in self._withdrawn.items():
            if how == "rescheduled":
                await self._cancel_rescheduled(caller, payload)
        for message in await self.pull(caller, 100, 0.5):
            self._acked.add(message.payload)
        for payload, places in self._places.items():
            if payload in self._withdrawn:
                self.broke(f"{payload!r} was {self._withdrawn[payload]}, and came from {places}")
            elif len(places) > 1:
                self.broke(f"{payload!r} was published at each of {sorted(places)}")

    async def _cancel_rescheduled(self, caller: Caller, payload: str) -> None:
        """Cancel a message whose new time has not come, so that it can be cancelled still."""
        path = f"/topics/{self.name}/messages/{self._ids[payload]}"
        while (reply := await caller.call("DELETE", path)).status not in (204, 404, 409):
            await asyncio.sleep(PAUSE_S)
        if reply.status == 409:
            self.broke(f"{payload!r} was rescheduled by an hour, and is published")
