"""An ack that was answered is for good: no pull sent after that brings its message again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery.actor import Actor, Message
from tests.chaos.delivery.caller import Caller


class Acked(Actor):
    name: ClassVar[str] = "acked"
    workers: ClassVar[int] = 3
    subscription: ClassVar[dict[str, Any]] = {"ack_deadline_seconds": 2}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acked_s: dict[str, float] = {}
        """Payload → when an ack of it was answered 200."""
        self._maybe: set[str] = set()
        """Acked in a request whose outcome nobody knows."""

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            if self._acked_s.get(message.payload, message.pulled_s) < message.pulled_s:
                self.broke(f"{message.payload!r} came again after its ack")
        if self.dice.random() < 0.05:
            return  # forgets them
        told = await self.ack(caller, messages)
        if told is None:
            self._maybe |= {message.payload for message in messages}
        now_s = time.monotonic()
        for message, ok in zip(messages, told or (), strict=False):
            if ok:
                self._acked_s.setdefault(message.payload, now_s)

    def done(self) -> bool:
        return not self._open()

    def left(self) -> str:
        return str(sorted(self._open())[:5])

    def _open(self) -> set[str]:
        return self.accepted() - self._acked_s.keys() - self._maybe
