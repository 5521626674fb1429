"""The counts of accepted messages that are not settled, and the outcomes that wait to be
reported.
"""

from __future__ import annotations

from typing import NamedTuple

from packetboat.errors import PacketboatError
from packetboat.models import Receipt
from packetboat.publisher.pending import Pending
from packetboat.publisher.settings import PublisherSettings


class Settled(NamedTuple):
    """A message and its outcome."""

    message: Pending
    outcome: Receipt | PacketboatError


class Ledger:
    """Every message comes in once and is settled once. `waiting_line` is how many times over the
    buffer may be filled."""

    def __init__(self, settings: PublisherSettings, waiting_line: int) -> None:
        self._settings = settings
        self._max_messages = settings.max_buffered_messages * waiting_line
        self._max_bytes = settings.max_buffered_bytes * waiting_line
        self._settled: list[Settled] = []
        self.messages: int = 0
        self.size_bytes: int = 0

    @property
    def has_room(self) -> bool:
        """The buffer, without the line of those that wait for it, is not full."""
        settings = self._settings
        return (
            self.messages < settings.max_buffered_messages
            and self.size_bytes < settings.max_buffered_bytes
        )

    def fits(self, message: Pending) -> bool:
        """One does, however large, where nothing else is."""
        if not self.messages:
            return True
        size_bytes = self.size_bytes + len(message.encoded)
        return self.messages < self._max_messages and size_bytes <= self._max_bytes

    def take(self, message: Pending) -> None:
        self.messages += 1
        self.size_bytes += len(message.encoded)

    def settle(self, message: Pending, outcome: Receipt | PacketboatError) -> None:
        assert not message.settled
        message.settled = True
        self.messages -= 1
        self.size_bytes -= len(message.encoded)
        assert self.messages >= 0
        assert self.size_bytes >= 0
        self._settled.append(Settled(message, outcome))

    def take_settled(self) -> list[Settled]:
        """Return the outcomes since the last call."""
        settled, self._settled = self._settled, []
        return settled
