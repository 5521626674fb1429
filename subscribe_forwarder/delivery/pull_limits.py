"""Counts the limits that are left of a pull while it goes over the partitions."""

from __future__ import annotations

from bisect import bisect_right

from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.judgement import Turn

MAX_SCAN = 4_096
"""Messages that one pass over the readers looks at one by one: a filter may take none of them."""


class PullLimits:
    """Holds the limits that are left of a pull."""

    __slots__ = ("max_bytes", "max_messages", "more", "new", "scan", "taken", "turn")

    def __init__(
        self, max_messages: int, max_bytes: int, new: int, turn: Turn | None = None
    ) -> None:
        """Begin with the limits of a pull."""
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.new = new
        """The number of messages that the subscription may deliver for the first time."""
        self.taken = 0
        self.scan = MAX_SCAN
        self.more = False
        """The pass ended at `MAX_SCAN` or with its turn: there may be something further on."""
        self.turn = turn or Turn()
        """The time of the loop's present turn that filters may take."""

    @property
    def full(self) -> bool:
        """Whether the pull takes no more messages or bytes."""
        return self.max_messages <= 0 or self.max_bytes <= 0

    def take(self, batch: Batch, low: int, high: int) -> int:
        """Take messages of a batch from the index `low` on; return the index where it stopped.

        It stops at `high`, or where a limit is reached: then the pull is full. A pull that has
        taken nothing takes its first message, whatever its size.
        """
        high = min(high, low + self.max_messages)
        sizes = batch.sizes()
        upto = bisect_right(sizes, sizes[low] + self.max_bytes, low, high + 1) - 1
        if upto < high and not self.taken:
            upto = max(upto, low + 1)
        self.taken += upto - low
        self.max_messages -= upto - low
        self.max_bytes = self.max_bytes - sizes[upto] + sizes[low] if upto == high else 0
        return upto
