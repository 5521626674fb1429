"""Keys in order: no message of a key is in a worker's hands before the earlier ones are settled.

The order is the order of the publisher, which sends the next of a key once the last is answered.
A message whose publish got no answer has no place in it, since it may be stored much later.
An ack that was sent and not answered yet may have taken effect, so the next of its key may come.
But it counts for no more than that: once a later message of a key was here, no pull that is sent
after that brings an earlier one, whose ack was not committed then.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

KEYS = 6
HELD = "a key waited for its head to come again"
SITUATIONS = (HELD,)


class Keyed(Actor):
    name: ClassVar[str] = "keyed"
    workers: ClassVar[int] = 3
    recorded: ClassVar[bool] = True
    subscription: ClassVar[dict[str, Any]] = {
        "ordered": True,
        "ack_deadline_seconds": 2,
        "retry": {"min_backoff_seconds": 0.02, "max_backoff_seconds": 0.2},
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acking: dict[str, float] = {}
        """Payload → when its first ack was sent."""
        self._acked: set[str] = set()
        self._got: list[tuple[float, float, str]] = []
        """The time at which its pull was sent, the time of its answer, and the payload."""

    async def _publish(self, stopping: asyncio.Event) -> None:
        await asyncio.gather(*(self._publish_key(f"k{key}", stopping) for key in range(KEYS)))

    def most(self, key: str) -> float:
        """Return how many messages of the key are published."""
        return math.inf

    async def _publish_key(self, key: str, stopping: asyncio.Event) -> None:
        caller = self.caller()
        number = 0
        while not stopping.is_set() and number < self.most(key):
            payload = f"{key} {number}"
            number += 1
            message = {"data": payload, "content_type": "text/plain", "key": key}
            await self.publish(caller, [message], [payload])
            await asyncio.sleep(self.pause_s)
        caller.close()

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            self._got.append((message.pulled_s, message.got_s, message.payload))
            self.sometimes.hit(HELD, message.attempt > 1)
        nacked = [message for message in messages if self.dice.random() < 0.1]
        rest = [message for message in messages if message not in nacked]
        if self.dice.random() < 0.02:
            return  # forgets them
        if nacked:
            await self.tell(caller, "nack", nacked)
        if rest:
            now_s = time.monotonic()
            for message in rest:
                self._acking.setdefault(message.payload, now_s)
            told = await self.ack_surely(caller, rest)
            self._acked |= {m.payload for m, ok in zip(rest, told, strict=True) if ok}

    def done(self) -> bool:
        return self.accepted() <= self._acked

    def left(self) -> str:
        return str(sorted(self.accepted() - self._acked)[:5])

    async def check(self, caller: Caller) -> None:
        known = self.accepted()
        first_s: dict[str, list[tuple[int, float]]] = {}
        for _, got_s, payload in self._got:
            key, number = payload.split()
            first_s.setdefault(key, []).append((int(number), got_s))
        for pulled_s, got_s, payload in self._got:
            key, number = payload.split()
            if payload in known and any(
                later > int(number) and at_s < pulled_s for later, at_s in first_s[key]
            ):
                self.broke(f"{payload!r} came again after a later one of its key")
            for earlier in range(int(number)):
                before = f"{key} {earlier}"
                if before in known and self._acking.get(before, got_s + 1) > got_s:
                    self.broke(f"{payload!r} was handed out before {before!r} was acked")
                    break
