"""Messages that fail on the way: nacked, released, rejected, forgotten, poisoned.

The promises: every accepted message is acked, or is once in the dead-letter topic, as its payload
says; a poisoned one after exactly its attempts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

MAX_ATTEMPTS = 4
NACKED = "a message was nacked and came again"
EXPIRED = "a lease ended and its message came again"
EXTENDED = "a lease was extended"
RELEASED = "a message was released"
REJECTED = "a message was rejected"
DEAD = "a message's attempts were used up"
SITUATIONS = (NACKED, EXPIRED, EXTENDED, RELEASED, REJECTED, DEAD)

LETTERS = "retrying-dead"
PREFIX = "packetboat-dead-letter-"


class Retrying(Actor):
    name: ClassVar[str] = "retrying"
    subscription: ClassVar[dict[str, Any]] = {
        "ack_deadline_seconds": 1,
        "retry": {
            "min_backoff_seconds": 0.05,
            "max_backoff_seconds": 0.2,
            "max_attempts": MAX_ATTEMPTS,
        },
        "dead_letter_topic": LETTERS,
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.acked: set[str] = set()
        self.maybe: set[str] = set()
        """Acked or rejected in a request whose answer was lost."""
        self.rejected: set[str] = set()
        self.letters: dict[str, list[dict[str, str]]] = {}
        self._forgotten: set[str] = set()

    async def prepare(self, caller: Caller) -> None:
        await caller.until_ok("POST", "/topics", {"name": LETTERS, "partitions": 2})
        spec = {"name": LETTERS, "start": "earliest"}
        await caller.until_ok("POST", f"/topics/{LETTERS}/subscriptions", spec)
        await super().prepare(caller)

    def next_message(self) -> dict[str, Any]:
        message = super().next_message()
        fates = ["good"] * 12 + ["nack", "release", "forget", "reject", "poison"]
        message["data"] = f"{self.dice.choice(fates)} {message['data']}"
        return message

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        by_call: dict[str, list[Message]] = {}
        for message in messages:
            by_call.setdefault(self._fate(message), []).append(message)
        for call, some in by_call.items():
            if call == "forget":
                continue
            if call == "ack" and self.dice.random() < 0.1:
                held = await self.tell(caller, "modify_ack_deadline", some, deadline_seconds=5)
                self.sometimes.hit(EXTENDED, any(held or ()))
            told = await self.tell(caller, call, some)
            if told is None:
                if call in ("ack", "reject"):
                    self.maybe.update(message.payload for message in some)
                continue
            done = {message.payload for message, ok in zip(some, told, strict=True) if ok}
            if call == "ack":
                self.acked |= done
            elif call == "reject":
                self.rejected |= done
                self.sometimes.hit(REJECTED, bool(done))
            elif call == "release":
                self.sometimes.hit(RELEASED, bool(done))

    def _fate(self, message: Message) -> str:
        fate = message.payload.split()[0]
        if fate == "poison":
            return "nack"
        if fate == "reject":
            return "reject"
        again = message.payload in self._forgotten
        self._forgotten.add(message.payload)
        if fate == "good" or again:
            self.sometimes.hit(NACKED, fate == "nack" and message.attempt > 1)
            self.sometimes.hit(EXPIRED, fate == "forget" and message.attempt > 1)
            return "ack"
        return fate

    def extras(self) -> list[Any]:
        return [self._read_letters_while]

    async def _read_letters_while(self, published: asyncio.Event) -> None:
        caller = self.caller()
        while not published.is_set():
            await self._read_letters(caller, 1)
        caller.close()

    async def _read_letters(self, caller: Caller, wait_s: float) -> int:
        reply = await caller.call(
            "GET", f"/subscriptions/{LETTERS}/messages?max_messages=100&wait_seconds={wait_s:g}"
        )
        messages = reply.body.get("messages", []) if reply.ok else []
        for letter in messages:
            origin = letter["attributes"]
            found = self.letters.setdefault(letter["data"], [])
            if all(each["at"] != letter["message_id"] for each in found):
                found.append(origin | {"at": letter["message_id"]})
        if messages:
            ids = [letter["ack_id"] for letter in messages]
            await caller.call("POST", f"/subscriptions/{LETTERS}/ack", {"ack_ids": ids})
        return len(messages)

    def done(self) -> bool:
        gone = self.acked | self.letters.keys() | self.maybe | self.rejected
        return all(payload in gone or payload.startswith("poison") for payload in self.accepted())

    def left(self) -> str:
        gone = self.acked | self.letters.keys() | self.maybe | self.rejected
        return str(sorted(self.accepted() - gone)[:5])

    async def check(self, caller: Caller) -> None:
        poisoned = {payload for payload in self.accepted() if payload.startswith("poison")}
        for _ in range(100):
            if poisoned <= self.letters.keys() and self.rejected <= self.letters.keys():
                break
            for message in await self.pull(caller, 100, 0.2):
                await self.handle(caller, [message])
            await self._read_letters(caller, 0.2)
        for payload in poisoned - self.letters.keys():
            self.broke(f"{payload!r} is no dead letter")
        for payload in self.rejected - self.letters.keys():
            self.broke(f"{payload!r} was rejected and is no dead letter")
        for payload, letters in self.letters.items():
            if len(letters) > 1:
                self.broke(f"{payload!r} is {len(letters)} dead letters")
            if payload in self.acked:
                self.broke(f"{payload!r} was acked and is a dead letter")
            self._check_letter(payload, letters[0])
        self.sometimes.hit(DEAD, bool(poisoned))

    def _check_letter(self, payload: str, letter: dict[str, str]) -> None:
        reason, attempts = letter[PREFIX + "reason"], int(letter[PREFIX + "attempts"])
        if payload.startswith("poison") and (reason, attempts) != ("exhausted", MAX_ATTEMPTS):
            self.broke(f"{payload!r}: {reason} after {attempts}")
        if payload.startswith("good") and reason != "exhausted":
            self.broke(f"{payload!r}: {reason}")

    def counts(self) -> Counter[str]:
        return Counter(payload.split()[0] for payload in self.letters)
