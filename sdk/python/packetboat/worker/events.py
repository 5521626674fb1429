"""Reports of a worker's work: make a subclass and override the methods that you want."""

from __future__ import annotations

from packetboat.worker.context import Context
from packetboat.worker.outcomes import Verb


class WorkerEvents:
    """Methods that the worker calls on its event loop: be quick, and raise nothing.

    `subscription` is a name.
    """

    def received(self, subscription: str, messages: int) -> None:
        """React to messages that are leased and wait for a handler."""

    def started(self, context: Context) -> None:
        """React to a handler that begins with a message."""

    def handled(self, context: Context, verb: Verb, seconds: float) -> None:
        """The handler that had begun has ended; `verb` is what the server will be told."""

    def settled(self, subscription: str, verb: Verb, messages: int) -> None:
        """React to settlements that the server has confirmed."""

    def lease_lost(self, subscription: str, message_id: str) -> None:
        """The message is delivered again, whatever its handler does."""

    def extended(self, subscription: str, messages: int) -> None:
        """React to an extension of the leases of messages."""

    def outage(self, subscription: str, error: Exception) -> None:
        """React to the start of an outage: the server does not answer, or not well."""

    def recovered(self, subscription: str, seconds: float) -> None:
        """React to the first answer of the server after an outage of `seconds`."""
