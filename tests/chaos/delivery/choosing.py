"""The choice of messages that a subscription gets.

Filters and skip rules change; messages have priorities and times to live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

EXPIRED = "a message's time to live was over"
SKIPPED = "a skip rule passed over a message"
SITUATIONS = (EXPIRED, SKIPPED)


class Filtered(Actor):
    """Only what the filter is true for comes, and all of it but what a rule skips."""

    name: ClassVar[str] = "filtered"
    subscription: ClassVar[dict[str, Any]] = {
        "filter": 'attributes.kind == "wanted" && int(attributes.size) < 5'
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acked: set[str] = set()
        self._skipping = False

    async def prepare(self, caller: Caller) -> None:
        await super().prepare(caller)
        rule = {"expression": 'attributes.batch == "bad"', "reason": "torture"}
        await caller.until_ok("POST", f"{self.path}/skip_rules", rule)

    def next_message(self) -> dict[str, Any]:
        message = super().next_message()
        kind = self.dice.choice(["wanted", "other"])
        batch = self.dice.choice(["good", "good", "good", "bad"])
        size = str(self.dice.randint(0, 9))
        message["attributes"] = {"kind": kind, "size": size, "batch": batch}
        message["data"] = f"{kind} {size} {batch} {message['data']}"
        return message

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.payload not in self._wanted({message.payload}):
                self.broke(f"{message.payload!r} came")
        told = await self.ack_surely(caller, messages)
        self._acked |= {m.payload for m, ok in zip(messages, told, strict=True) if ok}

    @staticmethod
    def _wanted(payloads: set[str]) -> set[str]:
        found = set()
        for payload in payloads:
            kind, size, batch, _ = payload.split()
            if kind == "wanted" and int(size) < 5 and batch == "good":
                found.add(payload)
        return found

    def done(self) -> bool:
        return self._wanted(self.accepted()) <= self._acked

    def left(self) -> str:
        return str(sorted(self._wanted(self.accepted()) - self._acked)[:5])

    async def check(self, caller: Caller) -> None:
        reply = await caller.until_ok("GET", f"{self.path}/backlog")
        partitions = reply.body["partitions"]
        self.sometimes.hit(SKIPPED, any(each["skipped"] for each in partitions))
        if not any(each["filtered"] for each in partitions):
            self.broke("nothing was filtered")


class Ranked(Actor):
    """Priorities in lanes, and messages that nobody wants any more after a moment."""

    name: ClassVar[str] = "ranked"
    topic: ClassVar[dict[str, Any]] = {"priorities": 4}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acked: set[str] = set()

    def next_message(self) -> dict[str, Any]:
        message = super().next_message()
        message["priority"] = self.dice.randint(0, 9)
        if self.dice.random() < 0.1:
            message["ttl_seconds"] = 0.001
            message["data"] = f"brief {message['data']}"
        return message

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        told = await self.ack_surely(caller, messages)
        self._acked |= {m.payload for m, ok in zip(messages, told, strict=True) if ok}

    def _lasting(self) -> set[str]:
        return {each for each in self.accepted() if not each.startswith("brief")}

    def done(self) -> bool:
        return self._lasting() <= self._acked

    def left(self) -> str:
        return str(sorted(self._lasting() - self._acked)[:5])

    async def check(self, caller: Caller) -> None:
        reply = await caller.until_ok("GET", f"{self.path}/backlog")
        self.sometimes.hit(EXPIRED, any(each["expired"] for each in reply.body["partitions"]))
        await asyncio.sleep(0)
