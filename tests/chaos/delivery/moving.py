"""A subscription that is sought, snapshotted, paused, drained and resumed while it is consumed.

The promises: after the last seek to the start, everything comes again; an ack id of an older
position is stale; and the books balance, which the load checks for every actor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from subscribe_forwarder.delivery.ack_id import parse_head
from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

SOUGHT = "a subscription was sought while it was consumed"
RESTORED = "a subscription was sought to a snapshot"
PAUSED = "a subscription was paused and resumed"
DRAINED = "a subscription was draining and resumed"
SITUATIONS = (SOUGHT, RESTORED, PAUSED, DRAINED)
CHANGES = ("earliest", "latest", "snapshot", "pause", "drain")
"""Changes of the subscription. Each comes once, in a random order, before one comes again: beside
faults there is time for about ten."""


class Moving(Actor):
    name: ClassVar[str] = "moving"
    topic: ClassVar[dict[str, Any]] = {"retention": {"mode": "retain"}}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acked: dict[int, set[str]] = {}
        """The acked messages by generation of the subscription; acks of one tell nothing of
        the next.
        """
        self._last: int | None = None
        """The generation that the last seek began."""

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        told = await self.ack(caller, messages)
        for message, ok in zip(messages, told or (), strict=told is not None):
            if ok and message.ack_id is not None:
                generation = parse_head(message.ack_id).generation
                self._acked.setdefault(generation, set()).add(message.payload)

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._operate]

    async def _operate(self, published: asyncio.Event) -> None:
        caller = self.caller()
        number, left = 0, list[str]()
        while not published.is_set():
            number += 1
            name = f"moving-{number}"
            left = left or self.dice.sample(CHANGES, len(CHANGES))
            what = left.pop()
            if what == "snapshot":
                await caller.until_ok("POST", f"{self.path}/snapshots", {"name": name})
                await asyncio.sleep(0.3)
                await caller.until_ok("POST", f"{self.path}/seek", {"to": {"snapshot": name}})
                await caller.until_ok("DELETE", f"/snapshots/{name}")
                self.sometimes.hit(RESTORED)
            elif what in ("pause", "drain"):
                await caller.until_ok("POST", f"{self.path}/{what}", {"reason": "torture"})
                await asyncio.sleep(0.3)
                await caller.until_ok("POST", f"{self.path}/resume")
                self.sometimes.hit(PAUSED if what == "pause" else DRAINED)
            else:
                await caller.until_ok("POST", f"{self.path}/seek", {"to": what})
                self.sometimes.hit(SOUGHT)
            await asyncio.sleep(0.5 + self.dice.random())
        await caller.until_ok("POST", f"{self.path}/resume")
        sought = await caller.until_ok("POST", f"{self.path}/seek", {"to": "earliest"})
        self._last = sought.body["generation"]
        caller.close()

    def _missing(self) -> set[str]:
        acked = set() if self._last is None else self._acked.get(self._last, set())
        return self.accepted() - acked

    def done(self) -> bool:
        return self._last is not None and not self._missing()

    def left(self) -> str:
        return str(sorted(self._missing())[:5])
