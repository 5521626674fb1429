"""What a handler may know beside its message."""

from __future__ import annotations

from typing import Any

from packetboat.models import Message
from packetboat.worker.held import Held
from packetboat.worker.stopping import Stopping


class Context:
    """Of one attempt at one message. Safe to look at from the handler's thread."""

    __slots__ = ("_held", "_stopping", "body", "subscription")

    def __init__(self, held: Held, subscription: str, stopping: Stopping) -> None:
        self._held = held
        self._stopping = stopping
        self.subscription: str = subscription
        self.body: Any = None
        """The message's data as the type that `body=` named; None without."""

    @property
    def message(self) -> Message:
        """As it was delivered this time."""
        return self._held.message

    @property
    def attempt(self) -> int:
        """1 at first."""
        return self._held.message.attempt

    @property
    def lease_lost(self) -> bool:
        """Another worker may have the message now: stop, and undo what can be undone. Whatever the
        handler ends in, this worker does not ack the message any more."""
        return self._held.lost

    @property
    def stopping(self) -> bool:
        """The worker was told to stop: a long handler may raise `Release` at a good place."""
        return self._stopping.asked
