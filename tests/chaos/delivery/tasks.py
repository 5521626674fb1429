"""Acks that publish: of each input that was acked, its outputs are published, and of no other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

OUTPUTS = "tasks-out"
PUBLISHED = "an ack published messages"
TWICE = "an ack that publishes was sent again, and had been done"
SITUATIONS = (PUBLISHED, TWICE)


class Tasks(Actor):
    name: ClassVar[str] = "tasks"
    subscription: ClassVar[dict[str, Any]] = {
        "ack_deadline_seconds": 2,
        "retry": {"min_backoff_seconds": 0.02, "max_backoff_seconds": 0.2},
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._finished: set[str] = set()
        self._outputs: Counter[str] = Counter()

    async def prepare(self, caller: Caller) -> None:
        await caller.until_ok("POST", "/topics", {"name": OUTPUTS, "partitions": 2})
        spec = {"name": OUTPUTS, "start": "earliest"}
        await caller.until_ok("POST", f"/topics/{OUTPUTS}/subscriptions", spec)
        await super().prepare(caller)

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            if self.dice.random() < 0.05:
                continue  # died over it
            await self._finish(caller, message)

    async def _finish(self, caller: Caller, message: Message) -> None:
        body = {
            "ack_ids": [message.ack_id],
            "publish": [
                {
                    "topic": OUTPUTS,
                    "data": f"{part} of {message.payload}",
                    "content_type": "text/plain",
                    "key": message.payload if part == "first" else None,
                }
                for part in ("first", "second")
            ],
        }
        deadline_s = time.monotonic() + 60
        again = False
        while time.monotonic() < deadline_s:
            reply = await caller.call("POST", f"{self.path}/ack", body)
            if reply.status == 200:
                if reply.body["acked"] == 1:
                    self._finished.add(message.payload)
                    self.sometimes.hit(PUBLISHED, not reply.body.get("duplicate", False))
                    self.sometimes.hit(TWICE, again and reply.body.get("duplicate", False))
                return
            if 400 <= reply.status < 500 and reply.status != 429:
                return
            again = True

    def done(self) -> bool:
        return self.accepted() <= self._finished

    def left(self) -> str:
        return str(sorted(self.accepted() - self._finished)[:5])

    async def check(self, caller: Caller) -> None:
        deadline_s = time.monotonic() + 60
        wanted = {f"{part} of {each}" for each in self._finished for part in ("first", "second")}
        seen: set[str] = set()
        while time.monotonic() < deadline_s:
            reply = await caller.call(
                "GET", f"/subscriptions/{OUTPUTS}/messages?max_messages=500&wait_seconds=1"
            )
            messages = reply.body.get("messages", []) if reply.ok else []
            for each in messages:
                if each["message_id"] not in seen:
                    seen.add(each["message_id"])
                    self._outputs[each["data"]] += 1
            if messages:
                ids = [each["ack_id"] for each in messages]
                await caller.call("POST", f"/subscriptions/{OUTPUTS}/ack", {"ack_ids": ids})
            elif reply.ok and wanted <= self._outputs.keys():
                break
        for output in sorted(wanted - self._outputs.keys())[:5]:
            self.broke(f"{output!r} was not published, its input was acked")
        for output in sorted(self._outputs.keys() - wanted)[:5]:
            self.broke(f"{output!r} was published, its input was not acked")
        for output, count in self._outputs.items():
            if count > 1:
                self.broke(f"{output!r} was published {count} times")
