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

from edge.shares import FairQueue

TakeTurn = Callable[[], None]


class GroupWindow:
    """The bytes that one process has sent to a group and not seen answered.

    Each `begin` has its `ended` with the same bytes.
    """

    def __init__(self, max_bytes: int, weight_of: Callable[[bytes], float]) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._queue: FairQueue[TakeTurn] = FairQueue(weight_of)
        """The wait list: the tenant that has sent the fewest bytes for its weight goes next."""
        self._queued: set[TakeTurn] = set()
        self._serving = False

    def admits(self, tenant_id: bytes, take_turn: TakeTurn) -> bool:
        """Return whether a sender may send now; else it waits and is told when its turn comes.

        `take_turn` tells it, once however often it asked.
        """
        if self._held_bytes < self._max_bytes and not self._queue:
            return True
        if take_turn not in self._queued:
            self._queued.add(take_turn)
            self._queue.add(tenant_id, take_turn)
        return False

    def begin(self, tenant_id: bytes, size_bytes: int) -> None:
        """Count bytes as sent by a sender of the tenant."""
        self._held_bytes += size_bytes
        self._queue.charge(tenant_id, size_bytes)

    def ended(self, size_bytes: int) -> None:
        """Count sent bytes as answered or given up, and let the next senders go."""
        self._held_bytes -= size_bytes
        assert self._held_bytes >= 0
        if self._queue and not self._serving:
            self._serving = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._serving = False
        while self._held_bytes < self._max_bytes and (found := self._queue.next()):
            take_turn = found[1]
            self._queued.discard(take_turn)
            take_turn()
        self._queue.forget_if_empty()
