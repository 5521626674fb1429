"""Counts the deliveries of active readers where they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from subscribe_forwarder.delivery.reader import Reader, Taken


class Activity:
    """Counts for one process; a subscription that gets nothing leaves no trace here."""

    def __init__(self) -> None:
        self._counts: dict[Reader, int] = {}
        self._bytes = 0.0

    def delivered(self, taken: Sequence[Taken]) -> None:
        """Count one delivery; its bytes are estimated from the means of its batches."""
        counts = self._counts
        for part in taken:
            count = part.message_count
            counts[part.reader] = counts.get(part.reader, 0) + count
            self._bytes += count * part.ranges[0].batch.mean_bytes

    def take(self) -> tuple[Mapping[Reader, int], float]:
        """Return the messages by reader, and about how many bytes, since the last call."""
        counts, self._counts = self._counts, {}
        handed, self._bytes = self._bytes, 0.0
        return counts, handed
