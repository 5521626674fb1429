"""Keeps the rows that cover one space of numbers of one queue: packed extents, and a tail.

An *extent* is a stretch of rows without a gap in one attached segment; extents and tail rows never
overlap. An extent takes 48 packed bytes. So memory grows with segments × queues in them, and after
a compaction hardly at all, but not with the stored bytes.

`held_bytes` and an extent's bytes count bytes that are not truncated. For an extent that a
truncation cuts in two they are an estimate, in proportion to the numbers left.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from store_nodes.storage.tail import Tail

_FIELDS = 6
_LOW = 0xFFFFFFFF


class Extent(NamedTuple):
    """Numbers [first, end): `rows` rows from `row_start` on of the index of `segment`.

    `shares` is the part of `bytes` for released runs, whose bodies are in staged batches.
    """

    first: int
    end: int
    segment: int
    row_start: int
    rows: int
    bytes: int
    shares: int
    last_time_us: int


class Space:
    """The extents and the tail of one space; see the module."""

    __slots__ = ("_data", "end", "held_bytes", "held_shares", "tail")

    def __init__(self) -> None:
        self._data: array[int] | None = None
        self.tail: Tail | None = None
        self.end = 0
        """The number above every number held."""
        self.held_bytes = 0
        self.held_shares = 0

    def __len__(self) -> int:
        """Return the number of extents."""
        return len(self._data) // _FIELDS if self._data is not None else 0

    def extent(self, index: int) -> Extent:
        assert self._data is not None
        at = index * _FIELDS
        first, end, rows, place, shares, time_us = self._data[at : at + _FIELDS]
        return Extent(
            first, end, place >> 32, rows >> 32, rows & _LOW, place & _LOW, shares, time_us
        )

    def extents(self) -> list[Extent]:
        return [self.extent(index) for index in range(len(self))]

    def overlapping(self, first: int, end: int) -> tuple[int, list[Extent]]:
        """Return the index of the first extent with a number of [first, end), and all such
        extents.
        """
        start = stop = self.find(first)
        found: list[Extent] = []
        while stop < len(self) and (extent := self.extent(stop)).first < end:
            found.append(extent)
            stop += 1
        return start, found

    def find(self, number: int) -> int:
        """Return the index of the first extent that ends above `number`."""
        data = self._data
        if data is None:
            return 0
        return bisect_right(
            range(len(data) // _FIELDS), number, key=lambda at: data[at * _FIELDS + 1]
        )

    def find_time(self, time_us: int, start: int) -> int:
        """Return the index of the first extent from `start` on that has a row not older."""
        data = self._data
        if data is None:
            return 0
        return bisect_left(
            range(len(data) // _FIELDS), time_us, lo=start, key=lambda at: data[at * _FIELDS + 5]
        )

    def append_extent(
        self,
        first: int,
        end: int,
        segment: int,
        row_start: int,
        rows: int,
        size: int,
        shares: int,
        last_us: int,
    ) -> None:
        """Add an extent behind everything held, which the caller has checked."""
        if self._data is None:
            self._data = array("Q")
        self._data.extend(
            (first, end, row_start << 32 | rows, segment << 32 | size, shares, last_us)
        )
        self.end = end
        self.held_bytes += size
        self.held_shares += shares

    def splice(self, start: int, stop: int, extents: list[Extent]) -> None:
        """Replace the extents at [start, stop) by `extents`."""
        if self._data is None:
            self._data = array("Q")
        for old in range(start, stop):
            gone = self.extent(old)
            self.held_bytes -= gone.bytes
            self.held_shares -= gone.shares
        packed = array("Q")
        for first, end, segment, row_start, rows, size, shares, time_us in extents:
            assert size <= _LOW
            packed.extend(
                (first, end, row_start << 32 | rows, segment << 32 | size, shares, time_us)
            )
            self.held_bytes += size
            self.held_shares += shares
            if end > self.end:
                self.end = end
        self._data[start * _FIELDS : stop * _FIELDS] = packed

    def add_row(
        self, base: int, messages: int, time_us: int, segment: int, offset: int, length: int
    ) -> bool:
        """Put a row into the tail; return False if some of its numbers are held already."""
        tail = self.tail
        if base >= self.end:
            if tail is None:
                tail = self.tail = Tail()
            tail.append(base, messages, time_us, segment, offset, length)
            self.end = base + messages
        else:
            at = self.find(base)
            if at < len(self) and self.extent(at).first < base + messages:
                return False
            if tail is None:
                tail = self.tail = Tail()
            if not tail.insert(base, messages, time_us, segment, offset, length):
                return False
        self.held_bytes += length
        return True

    def remove_tail(self, start: int, stop: int) -> None:
        """Remove the rows of the tail at indexes [start, stop)."""
        tail = self.tail
        if tail is None or start >= stop:
            return
        self.held_bytes -= sum(tail.lengths[start:stop])
        if tail.odd:
            shares = [tail.lengths[i] for i in range(start, stop) if tail.bases[i] in tail.odd]
            self.held_shares -= sum(shares)
        if stop - start == len(tail):
            self.tail = None
        else:
            tail.remove(start, stop)

    def covers(self, number: int) -> bool:
        at = self.find(number)
        if at < len(self) and self.extent(at).first <= number:
            return True
        tail = self.tail
        if tail is None:
            return False
        index = tail.find(number)
        return index < len(tail) and tail.bases[index] <= number

    def gaps(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [first, end) that nothing covers."""
        found: list[tuple[int, int]] = []
        held: list[tuple[int, int]] = []
        for index in range(self.find(first), len(self)):
            extent = self.extent(index)
            if extent.first >= end:
                break
            held.append((extent.first, extent.end))
        if self.tail is not None:
            for index in range(self.tail.find(first), len(self.tail)):
                base = self.tail.bases[index]
                if base >= end:
                    break
                held.append((base, base + self.tail.counts[index]))
        at = first
        for start, stop in sorted(held):
            if start > at:
                found.append((at, start))
            at = max(at, stop)
        if at < end:
            found.append((at, end))
        return found
