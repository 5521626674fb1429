"""Writes the delivery trace: a line of JSON for each response with messages, at their owner.

It is for audits and tests: messages that it calls sent were received, or their connection was cut.
Lines stay in memory for a fifth of a second at most; a process that is killed loses those.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import time_ns
from typing import IO, Protocol

import msgspec

from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.wait_list import Delivery

FLUSH_S = 0.2
_encode = msgspec.json.encode


class DeliveryRecorder(Protocol):
    """A recorder of each response that carried messages."""

    def note(
        self, hub: Hub, delivery: Delivery, consumer: str, forwarded: bool, *, sent: bool
    ) -> None: ...


class DeliveryTrace:
    """One per process; raises OSError where the file cannot be opened for appending."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(
        self, hub: Hub, delivery: Delivery, consumer: str, forwarded: bool, *, sent: bool
    ) -> None:
        """Call it before the leases of what was not sent are released. Members: `time_us`, of the
        wall clock; `messages`, of each [partition, lane, offset, attempt]; `outcome`, `sent` or
        `unsent`: it did not leave as a whole."""
        messages = [
            [*part.reader.place, offset, part.reader.ledger.attempt(offset)]
            for part in delivery.taken
            for offset in part.offsets
        ]
        line = {
            "time_us": time_ns() // 1000,
            "subscription": hub.subscription.name,
            "subscription_uid": hub.subscription.uid.hex(),
            "messages": messages,
            "consumer": consumer,
            "outcome": "sent" if sent else "unsent",
            "forwarded": forwarded,
        }
        self._lines.append(_encode(line))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Raises OSError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            self._file.write(b"\n".join(lines) + b"\n")

    def close(self) -> None:
        self.flush()
        self._file.close()
