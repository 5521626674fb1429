"""Effects that are counted: exactly once by accepted acks, at most once by deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller

RETRIED = "an exactly-once ack was sent again after its answer was lost"
REFUSED = "an exactly-once ack of a lease that was over was refused"
SITUATIONS = (RETRIED, REFUSED)


class ExactlyOnce(Actor):
    """An effect is an accepted ack: of each message there is one, by one lease."""

    name: ClassVar[str] = "exactly-once"
    workers: ClassVar[int] = 3
    recorded: ClassVar[bool] = True
    subscription: ClassVar[dict[str, Any]] = {
        "delivery": "exactly_once",
        "ack_deadline_seconds": 1,
        "retry": {"min_backoff_seconds": 0.02, "max_backoff_seconds": 0.1},
    }

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.effects: defaultdict[str, set[str]] = defaultdict(set)
        """Payload → the ack ids that were accepted."""
        self._late: list[Message] = []

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        if self.dice.random() < 0.05:
            self._late += messages  # killed before it could ack; somebody may, much later
            return
        await self._effect(caller, messages)
        if self._late and self.dice.random() < 0.3:
            late, self._late = self._late, []
            await self._effect(caller, late)

    async def _effect(self, caller: Caller, messages: Sequence[Message]) -> None:
        told = await self.ack_surely(caller, messages)
        for message, ok in zip(messages, told, strict=True):
            if ok:
                self.effects[message.payload].add(str(message.ack_id))
            else:
                self.sometimes.hit(REFUSED)

    def repeated_ack(self) -> None:
        self.sometimes.hit(RETRIED)

    def done(self) -> bool:
        return self.accepted() <= self.effects.keys()

    def left(self) -> str:
        return str(sorted(self.accepted() - self.effects.keys())[:5])

    async def check(self, caller: Caller) -> None:
        for payload, ids in self.effects.items():
            if len(ids) != 1:
                self.broke(f"{payload!r} was acked by {len(ids)} leases")


class AtMostOnce(Actor):
    """Each message is handed out once or never."""

    name: ClassVar[str] = "at-most-once"
    subscription: ClassVar[dict[str, Any]] = {"delivery": "at_most_once"}
    recorded: ClassVar[bool] = True
    drains: ClassVar[bool] = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._seen: dict[str, int] = {}

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            self._seen[message.message_id] = self._seen.get(message.message_id, 0) + 1

    def done(self) -> bool:
        """Anything may be lost, but not all of it."""
        return bool(self._seen)

    def left(self) -> str:
        return "nothing was handed out"

    async def check(self, caller: Caller) -> None:
        for message_id, count in self._seen.items():
            if count > 1:
                self.broke(f"{message_id} was handed out {count} times")
