"""An ack that was answered is for good: no pull sent after that brings its message again.

A Postgres that goes back in time forgets the acks of a while, so their messages may come again, and
no others may. A forwarder that has not seen how far Postgres was writes what it remembers once
more: then they do not come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from tests.chaos.delivery.actor import Message
from tests.chaos.delivery.caller import Caller
from tests.simulation.delivery.forgetting import Forgetting

FORGOTTEN = "a message came again whose ack Postgres forgot"
SITUATIONS = (FORGOTTEN,)


class _Ack(NamedTuple):
    sent_s: float
    answered_s: float


class Acked(Forgetting):
    name: ClassVar[str] = "acked"
    workers: ClassVar[int] = 3
    subscription: ClassVar[dict[str, Any]] = {"ack_deadline_seconds": 2}
    topic: ClassVar[dict[str, Any]] = {"retention": {"mode": "retain"}}
    """Consumed messages would be gone, and what Postgres forgot of them could not come again."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._acked: dict[str, _Ack] = {}
        """The first ack of each payload that was answered 200 and that Postgres did not
        forget since.
        """
        self._maybe: set[str] = set()
        """Acked in a request whose outcome nobody knows."""
        self._ids: dict[str, str] = {}
        """Payloads by the ids of their messages."""

    async def handle(self, caller: Caller, messages: Sequence[Message]) -> None:
        for message in messages:
            self._judge(message)
        if self.dice.random() < 0.05:
            return  # forgets them
        sent_s = time.monotonic()
        told = await self.ack(caller, messages)
        if told is None:
            self._maybe |= {message.payload for message in messages}
        now_s = time.monotonic()
        for message, ok in zip(messages, told or (), strict=False):
            if ok:
                before = self._acked.get(message.payload)
                if before is None or self.may_be_forgotten(*before):
                    self._acked[message.payload] = _Ack(sent_s, now_s)

    def _judge(self, message: Message) -> None:
        if self._ids.setdefault(message.message_id, message.payload) != message.payload:
            self.broke(f"{message.message_id} is {message.payload!r} and another message")
        acked = self._acked.get(message.payload)
        if acked is None:
            return
        if self.is_forgotten(*acked):
            self.sometimes.hit(FORGOTTEN)
        elif acked.answered_s < message.pulled_s and not self.may_be_forgotten(*acked):
            self.broke(f"{message.payload!r} came again after its ack")

    def done(self) -> bool:
        return not self._open()

    def left(self) -> str:
        return str(sorted(self._open())[:5])

    def _open(self) -> set[str]:
        return self.accepted() - self._acked.keys() - self._maybe
