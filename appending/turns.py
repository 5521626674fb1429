"""Whose append goes to a group next, when more would go than it takes: tenants by weight.

What is sent to a group and not answered is bounded; the bound is a few round trips' worth. Below it
everybody sends at once. At it lanes wait in line, a line for each tenant, and the tenant that has
sent the least for its weight goes next: so what one tenant has waiting, however much that is, costs
another one bound's worth of time and no more. A tenant that was away starts level with the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from edge.shares import Line


class Sender(Protocol):
    """A `lane.Lane`."""

    @property
    def tenant_id(self) -> bytes: ...

    def take_turn(self) -> None:
        """Sends what it has, now, if anything."""
        ...


class GroupTurns:
    """Of one group, in one process. Each `begin` has its `ended`, same bytes."""

    def __init__(self, max_bytes: int, weight_of: Callable[[bytes], float]) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._line: Line[Sender] = Line(weight_of)
        """Who has had the fewest bytes for its weight goes next."""
        self._queued: set[Sender] = set()
        self._serving = False

    def admits(self, sender: Sender) -> bool:
        """True: it may send now. Else it is in line, and told when it is its turn."""
        if self._held_bytes < self._max_bytes and not self._line:
            return True
        if sender not in self._queued:
            self._queued.add(sender)
            self._line.add(sender.tenant_id, sender)
        return False

    def begin(self, sender: Sender, size_bytes: int) -> None:
        """It sends so much."""
        self._held_bytes += size_bytes
        self._line.charge(sender.tenant_id, size_bytes)

    def ended(self, size_bytes: int) -> None:
        """So much is answered, or given up."""
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
        self._line.settle()
