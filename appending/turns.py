"""Whose append goes to a group next, when more would go than it takes: tenants by weight.

What is sent to a group and not answered is bounded; the bound is a few round trips' worth. Below it
everybody sends at once. At it lanes wait in line, a line for each tenant, and the tenant that has
sent the least for its weight goes next: so what one tenant has waiting, however much that is, costs
another one bound's worth of time and no more. A tenant that was away starts level with the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol


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
        self._weight_of = weight_of
        self._held_bytes = 0
        self._lines: dict[bytes, deque[Sender]] = {}
        self._queued: set[Sender] = set()
        self._sent: dict[bytes, float] = {}
        """Bytes by weight of those who have waited since there was a line, and more."""
        self._least = 0.0
        self._serving = False

    def admits(self, sender: Sender) -> bool:
        """True: it may send now. Else it is in line, and told when it is its turn."""
        if self._held_bytes < self._max_bytes and not self._lines:
            return True
        if sender not in self._queued:
            tenant_id = sender.tenant_id
            line = self._lines.get(tenant_id)
            if line is None:
                line = self._lines[tenant_id] = deque()
                self._sent[tenant_id] = max(self._least, self._sent.get(tenant_id, 0.0))
            self._queued.add(sender)
            line.append(sender)
        return False

    def begin(self, sender: Sender, size_bytes: int) -> None:
        """It sends so much."""
        self._held_bytes += size_bytes
        if self._sent:
            tenant_id = sender.tenant_id
            before = self._sent.get(tenant_id, self._least)
            self._sent[tenant_id] = before + size_bytes / self._weight_of(tenant_id)

    def ended(self, size_bytes: int) -> None:
        """So much is answered, or given up."""
        self._held_bytes -= size_bytes
        assert self._held_bytes >= 0
        if self._lines and not self._serving:
            self._serving = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._serving = False
        while self._lines and self._held_bytes < self._max_bytes:
            tenant_id = min(self._lines, key=self._sent.__getitem__)
            self._least = self._sent[tenant_id]
            line = self._lines[tenant_id]
            sender = line.popleft()
            self._queued.discard(sender)
            if not line:
                del self._lines[tenant_id]
            sender.take_turn()
        if not self._lines:
            self._sent.clear()
            self._least = 0.0
