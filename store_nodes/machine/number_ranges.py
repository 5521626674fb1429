"""A bounded set of numbers as sorted ranges in two packed arrays."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import pairwise

from store_nodes.machine.packed import pack_u64, unpack_u64


class NumberRanges:
    """A set of numbers; above `max_ranges` ranges, the lowest is forgotten."""

    __slots__ = ("_ends", "_max_ranges", "_starts")

    def __init__(self, max_ranges: int) -> None:
        self._max_ranges = max_ranges
        # Range n is [starts[n], ends[n]); no two touch.
        self._starts = array("Q")
        self._ends = array("Q")

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, number: int) -> None:
        """Add a number that is not in the set."""
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, number)
        assert not at or ends[at - 1] <= number, f"{number} is in already"
        follows = at > 0 and ends[at - 1] == number
        precedes = at < len(starts) and starts[at] == number + 1
        if follows and precedes:
            ends[at - 1] = ends[at]
            del starts[at], ends[at]
        elif follows:
            ends[at - 1] = number + 1
        elif precedes:
            starts[at] = number
        else:
            starts.insert(at, number)
            ends.insert(at, number + 1)
            if len(starts) > self._max_ranges:
                del starts[0], ends[0]

    def pack(self) -> tuple[bytes, bytes]:
        return pack_u64(self._starts), pack_u64(self._ends)

    @classmethod
    def unpack(cls, max_ranges: int, packed: tuple[bytes, bytes]) -> NumberRanges:
        """Return the set of a snapshot; raises ValueError."""
        ranges = cls(max_ranges)
        ranges._starts, ranges._ends = map(unpack_u64, packed)
        if len(ranges._starts) != len(ranges._ends):
            raise ValueError("starts and ends of ranges do not match")
        edges = [edge for both in zip(ranges._starts, ranges._ends, strict=True) for edge in both]
        if any(later <= earlier for earlier, later in pairwise(edges)):
            raise ValueError("ranges overlap or touch")
        return ranges
