"""The offsets and stage numbers of queues that a copy has, as ranges.

Adjacent batches are one range, so that the memory needed does not grow with the stored messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from store_nodes.storage.rows import OFFSETS, STAGES, space_of
from store_nodes.wal.footer import BatchEntry

Range = tuple[int, int]


class Held:
    """Ranges [first, end) of numbers that a copy has; it only grows."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[bytes, int], list[Range]] = {}

    def add(self, entry: BatchEntry) -> None:
        ranges = self._ranges.setdefault((entry.queue, space_of(entry.flags)), [])
        first, end = entry.base_offset, entry.base_offset + entry.messages
        # Ranges that touch it are merged with it.
        low = bisect_left(ranges, first, key=lambda one: one[1])
        high = bisect_right(ranges, end, key=lambda one: one[0])
        if low < high:
            first, end = min(first, ranges[low][0]), max(end, ranges[high - 1][1])
        ranges[low:high] = [(first, end)]

    def missing(self, queue: bytes, first: int, end: int, *, staged: bool = False) -> list[Range]:
        """Return the parts of [first, end) that the copy lacks."""
        gaps: list[Range] = []
        at = first
        ranges = self._ranges.get((queue, STAGES if staged else OFFSETS), [])
        for low, high in ranges[bisect_right(ranges, first, key=lambda one: one[1]) :]:
            if low >= end:
                break
            if low > at:
                gaps.append((at, low))
            at = max(at, high)
        if at < end:
            gaps.append((at, end))
        return gaps
