"""Keeps index rows in memory: the batches of one queue that no attached segment lists yet."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from store_nodes.storage.rows import Row
from store_nodes.wal.position import Position

_COLUMNS = (
    ("bases", "Q"),
    ("counts", "I"),
    ("times", "Q"),
    ("segments", "I"),
    ("at", "I"),
    ("lengths", "I"),
)


class Tail:
    """Rows in ascending order of base, disjoint, in 32 packed bytes each.

    `odd` has the extra of released runs, by base.
    """

    __slots__ = ("at", "bases", "counts", "lengths", "odd", "segments", "times")

    def __init__(self) -> None:
        self.bases = array("Q")
        self.counts = array("I")
        self.times = array("Q")
        self.segments = array("I")
        self.at = array("I")
        self.lengths = array("I")
        self.odd: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self.bases)

    @property
    def end(self) -> int:
        """The number after those of the last row."""
        return self.bases[-1] + self.counts[-1] if self.bases else 0

    def append(
        self, base: int, count: int, time_us: int, segment: int, at: int, length: int
    ) -> None:
        """Add a row behind all others; the caller has checked that it belongs there."""
        self.bases.append(base)
        self.counts.append(count)
        self.times.append(time_us)
        self.segments.append(segment)
        self.at.append(at)
        self.lengths.append(length)

    def insert(
        self, base: int, count: int, time_us: int, segment: int, at: int, length: int
    ) -> bool:
        """Insert a row at its place; return False if a row there has some of its numbers."""
        index = bisect_right(self.bases, base)
        if index and self.bases[index - 1] + self.counts[index - 1] > base:
            return False
        if index < len(self.bases) and self.bases[index] < base + count:
            return False
        self.bases.insert(index, base)
        self.counts.insert(index, count)
        self.times.insert(index, time_us)
        self.segments.insert(index, segment)
        self.at.insert(index, at)
        self.lengths.insert(index, length)
        return True

    def row(self, index: int) -> Row:
        """Return the row at an index."""
        base = self.bases[index]
        at = Position(self.segments[index], self.at[index], self.lengths[index])
        return Row(base, self.counts[index], self.times[index], at, self.odd.get(base, b""))

    def find(self, number: int) -> int:
        """Return the index of the first row that ends above `number`."""
        index = bisect_right(self.bases, number)
        if index and self.bases[index - 1] + self.counts[index - 1] > number:
            return index - 1
        return index

    def find_time(self, time_us: int, start: int = 0) -> int:
        """Return the index of the first row from `start` on that is not older."""
        return bisect_left(self.times, time_us, start)

    def rows(self, start: int = 0) -> Iterator[Row]:
        """Yield the rows from an index on."""
        for index in range(start, len(self.bases)):
            yield self.row(index)

    def remove(self, start: int, stop: int) -> None:
        """Remove the rows at indexes [start, stop)."""
        if self.odd:
            for base in self.bases[start:stop]:
                self.odd.pop(base, None)
        for name, _ in _COLUMNS:
            del getattr(self, name)[start:stop]
