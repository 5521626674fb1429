"""The facts that a handler may read beside its message."""

from __future__ import annotations

from typing import Any

from packetboat.models import Message
from packetboat.worker.held import Held
from packetboat.worker.running import Stopping


class Context:
    """The context of one attempt at one message. The handler's thread may read it safely."""

    __slots__ = ("_held", "_stopping", "body", "subscription")

    def __init__(self, held: Held, subscription: str, stopping: Stopping) -> None:
        self._held = held
        self._stopping = stopping
        self.subscription: str = subscription
        self.body: Any = None
        """The message's data as the type that `body=` named; None without."""

    @property
    def message(self) -> Message:
        """The message as this attempt delivered it."""
        return self._held.message

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._held.message.attempt

    @property
    def lease_lost(self) -> bool:
        """True if another worker may have the message now: stop, and undo what you can.

        This worker does not ack the message any more, whatever the handler returns or raises.
        """
        return self._held.lost

    @property
    def stopping(self) -> bool:
        """The worker was told to stop: a long handler may raise `Release` at a good place."""
        return self._stopping.asked
