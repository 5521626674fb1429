"""Keeps messages on their way to the dead letters, and the times to report them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from metadata.delivery.deliveries import OpenDelivery
from subscribe_forwarder.delivery.state.exceptions import Exceptions
from subscribe_forwarder.delivery.state.failures import TO_DEAD_LETTERS

REPORT_AGAIN_MS = 30_000


class PendingDeadLetters:
    """Keeps the messages whose failure for good is committed."""

    def __init__(self, exceptions: Exceptions) -> None:
        self.on_due: Callable[[OpenDelivery], None] | None = None
        """The dead-letter writer, which gets each message when it is due; None: they wait."""
        self._open = exceptions
        self._due: list[tuple[int, int]] = []  # (when to tell of it, offset)

    def add(self, offset: int, now_ms: int) -> None:
        heappush(self._due, (now_ms, offset))
        self.tell(now_ms)

    def again(self, offset: int, now_ms: int) -> None:
        """Report a message again later, because it could not be written."""
        heappush(self._due, (now_ms + REPORT_AGAIN_MS, offset))

    def tell(self, now_ms: int) -> None:
        """Report messages whose time to go to the dead letters has come."""
        while self._due and self._due[0][0] <= now_ms and self.on_due is not None:
            row = self._open.rows.get(heappop(self._due)[1])
            if row is not None and row.reason in TO_DEAD_LETTERS:
                self.on_due(row)
