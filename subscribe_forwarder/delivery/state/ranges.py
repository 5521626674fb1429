"""Keeps a set of offsets as sorted half-open ranges that neither touch nor overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Range = tuple[int, int]


class RangeSet:
    """Holds ranges in order: adding costs a binary search, and acks in order keep them few."""

    __slots__ = ("_highs", "_lows", "size")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []
        self.size = 0
        """The number of offsets in the set."""
        for low, high in ranges:
            self.add(low, high)

    def __len__(self) -> int:
        """Return the number of ranges, not of offsets."""
        return len(self._lows)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._lows, offset) - 1
        return index >= 0 and offset < self._highs[index]

    @property
    def first(self) -> int:
        """The lowest offset; the set must not be empty."""
        return self._lows[0]

    @property
    def end(self) -> int:
        """The offset after the highest one; the set must not be empty."""
        return self._highs[-1]

    def ranges(self) -> tuple[Range, ...]:
        """Return the ranges in ascending order."""
        return tuple(zip(self._lows, self._highs, strict=True))

    def add(self, low: int, high: int) -> int:
        """Add [low, high); return how many of its offsets were not in the set before."""
        assert low < high, f"a range from {low} to {high}"
        lows, highs = self._lows, self._highs
        first = bisect_left(highs, low)  # the first range that ends at or after `low`
        last = bisect_right(lows, high)  # one past the last range that starts at or before `high`
        if first == last:
            lows.insert(first, low)
            highs.insert(first, high)
            new = high - low
        else:
            covered = sum(highs[i] - lows[i] for i in range(first, last))
            low, high = min(low, lows[first]), max(high, highs[last - 1])
            lows[first:last] = [low]
            highs[first:last] = [high]
            new = high - low - covered
        self.size += new
        return new

    def drop_first_if_at(self, floor: int) -> int:
        """Takes away the first range when it starts at `floor` and returns its end, else `floor`.

        No range may start below `floor`.
        """
        if not self._lows or self._lows[0] > floor:
            return floor
        assert self._lows[0] == floor, f"a range begins at {self._lows[0]}, below {floor}"
        high = self._highs.pop(0)
        self._lows.pop(0)
        self.size -= high - floor
        return high

    def gap_at(self, offset: int, end: int) -> Range:
        """Return the first gap from `offset` on, cut at `end`; (end, end) if there is none."""
        index = bisect_right(self._lows, offset) - 1
        if index >= 0 and offset < self._highs[index]:
            offset = self._highs[index]
        if offset >= end:
            return end, end
        index += 1
        high = self._lows[index] if index < len(self._lows) else end
        return offset, min(high, end)
