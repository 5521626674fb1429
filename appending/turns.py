"""Orders the appends to a group that gets more than it takes, by turns of tenants.

The bytes that are sent to a group and not answered are bounded, at a few round trips' worth. Below
the bound everybody sends at once. At the bound, queue senders wait in a wait list for each tenant,
and the tenant that has sent the least for its weight goes next. So a tenant's backlog, however
large, delays another tenant by one bound's worth of time and no more. A tenant that was away starts
level with the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from edge.shares import Line


class Sender(Protocol):
    """The part of a queue sender (`sender.QueueSender`) that takes turns."""

    @property
    def tenant_id(self) -> bytes: ...

    def take_turn(self) -> None:
        """Send the waiting requests now, if there are any."""
        ...


class GroupTurns:
    """The turns for one group in one process; each `begin` has its `ended` with the same bytes."""

    def __init__(self, max_bytes: int, weight_of: Callable[[bytes], float]) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._line: Line[Sender] = Line(weight_of)
        """The wait list: the tenant that has sent the fewest bytes for its weight goes next."""
        self._queued: set[Sender] = set()
        self._serving = False

    def admits(self, sender: Sender) -> bool:
        """Return whether a sender may send now; else it waits and is told when its turn comes."""
        if self._held_bytes < self._max_bytes and not self._line:
            return True
        if sender not in self._queued:
            self._queued.add(sender)
            self._line.add(sender.tenant_id, sender)
        return False

    def begin(self, sender: Sender, size_bytes: int) -> None:
        """Count bytes as sent by a sender."""
        self._held_bytes += size_bytes
        self._line.charge(sender.tenant_id, size_bytes)

    def ended(self, size_bytes: int) -> None:
        """Count sent bytes as answered or given up, and let the next senders go."""
        self._held_bytes -= size_bytes
        assert self._held_bytes >= 0
        if self._line and not self._serving:
            self._serving = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._serving = False
        while self._held_bytes < self._max_bytes and (found := self._line.next()):
            sender = found[1]
            self._queued.discard(sender)
            sender.take_turn()
        self._line.forget_if_empty()
