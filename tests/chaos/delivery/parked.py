"""Keys that wait aside: their heads fail until an operator resumes or skips them.

The promises: only a message that failed all of its attempts is parked; the other keys flow
meanwhile (the one of ABANDONED is left parked until all the others are done); a key goes on with
its head or behind it as the operator said, in order; a skipped message never comes again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import DRAIN_S, Message
from tests.chaos.delivery.caller import PAUSE_S, Caller
from tests.chaos.delivery.keyed import Keyed

MAX_ATTEMPTS = 2
ABANDONED = "k0"
ABANDONED_MESSAGES = 50
RESUMED = "a parked key was resumed"
SKIPPED = "the head of a parked key was skipped"
FLOWED = "all keys were done but a parked one and what waits behind it"
SITUATIONS = (RESUMED, SKIPPED, FLOWED)


class Parked(Keyed):
    name: ClassVar[str] = "parked"
    recorded: ClassVar[bool] = False
    pause_s: ClassVar[float] = 0.15
    subscription: ClassVar[dict[str, Any]] = {
        "ordered": True,
        "ack_deadline_seconds": 2,
        "retry": {
            "min_backoff_seconds": 0.02,
            "max_backoff_seconds": 0.1,
            "max_attempts": MAX_ATTEMPTS,
            "on_exhausted": "park",
        },
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._payloads: dict[str, str] = {}
        """The payloads by message id."""
        self._repaired: set[str] = set()
        self._skipping: set[str] = set()
        self._skipped: dict[str, float] = {}
        """Payload → when its skip was answered 200."""

    def most(self, key: str) -> float:
        return ABANDONED_MESSAGES if key == ABANDONED else math.inf

    @staticmethod
    def _fate(payload: str) -> str:
        key, number = payload.split()
        if key == ABANDONED:
            return "repair" if number == "3" else "good"
        return {"4": "repair", "9": "skip"}.get(number[-1], "good")

    async def pull(self, caller: Caller, count: int, wait_s: float = 1.0) -> list[Message]:
        sent_s = time.monotonic()
        messages = await super().pull(caller, count, wait_s)
        for message in messages:
            self._payloads[message.message_id] = message.payload
            if self._skipped.get(message.payload, sent_s) < sent_s:
                self.broke(f"{message.payload!r} came after it was skipped")
            if message.attempt > MAX_ATTEMPTS:
                self.broke(f"{message.payload!r} came for attempt {message.attempt}")
        return messages

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        self._got += [(each.pulled_s, each.got_s, each.payload) for each in messages]
        good = [each for each in messages if self._is_good(each.payload)]
        bad = [each for each in messages if each not in good]
        if bad:
            await self.tell(caller, "nack", bad, reason="poisoned")
        if good:
            now_s = time.monotonic()
            for message in good:
                self._acking.setdefault(message.payload, now_s)
            told = await self.ack_surely(caller, good)
            self._acked |= {m.payload for m, ok in zip(good, told, strict=True) if ok}

    def _is_good(self, payload: str) -> bool:
        return payload in self._repaired or self._fate(payload) == "good"

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._operate]

    async def _operate(self, published: asyncio.Event) -> None:
        caller = self.caller()
        deadline_s = math.inf
        while not (published.is_set() and self.done()) and time.monotonic() < deadline_s:
            if published.is_set() and deadline_s == math.inf:
                deadline_s = time.monotonic() + DRAIN_S
            reply = await caller.call("GET", f"{self.path}/parked_keys")
            for each in reply.body.get("parked_keys", []) if reply.ok else []:
                await self._attend(caller, each, last=published.is_set())
            await asyncio.sleep(PAUSE_S)
        caller.close()

    async def _attend(self, caller: Caller, parked: dict[str, Any], last: bool) -> None:
        """Does with a parked key what its head's payload says."""
        key, head = parked["key"], self._payloads.get(parked["message_id"], "")
        if parked["attempts"] < MAX_ATTEMPTS:
            self.broke(f"{head!r} was parked after {parked['attempts']} attempts")
        if key == ABANDONED and head and not self._is_good(head):
            if not (last and self._others_done()):
                return
            self.sometimes.hit(FLOWED, parked["waiting"] > 0)
        if head and self._fate(head) == "skip":
            self._acking.setdefault(head, time.monotonic())
            reply = await caller.call("POST", f"{self.path}/parked_keys:skip", {"key": key})
            self._skipping.add(head)
            if reply.ok and reply.body["done"]:
                self._skipped[head] = time.monotonic()
                self.sometimes.hit(SKIPPED)
            return
        self._repaired.add(head)
        reply = await caller.call("POST", f"{self.path}/parked_keys:resume", {"key": key})
        self.sometimes.hit(RESUMED, reply.ok)

    def _missing(self) -> set[str]:
        """Return the messages that are neither acked nor skipped.

        A skip whose answer was lost counts once the next of its key was acked: the order says so.
        """
        missing = self.accepted() - self._acked - self._skipped.keys()
        return {each for each in missing if not (each in self._skipping and self._passed(each))}

    def _passed(self, payload: str) -> bool:
        key, number = payload.split()
        return f"{key} {int(number) + 1}" in self._acked

    def _others_done(self) -> bool:
        return all(payload.split()[0] == ABANDONED for payload in self._missing())

    def done(self) -> bool:
        return not self._missing()

    def left(self) -> str:
        return str(sorted(self._missing())[:5])

    async def check(self, caller: Caller) -> None:
        await super().check(caller)
        for payload in sorted(self._acked & self._skipped.keys()):
            self.broke(f"{payload!r} was acked and skipped")
