"""Finds each chosen instance of a group in this node's log; it is local, and rebuilt at start.

It serves peers that are too far behind for the values in memory. Instances of segments that are
sealed and attached are looked up in their sidecars; each of the others takes 16 packed bytes of
memory.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from store_nodes.storage.pages import Pages
from store_nodes.wal.position import Position


class _Range(NamedTuple):
    segment: int
    first: int
    last: int
    row_start: int
    rows: int


class InstanceIndex:
    """The positions of the values of instances.

    A later record of an instance replaces an earlier one; both have the same value once it is
    chosen.
    """

    __slots__ = ("_at", "_end", "_first", "_lengths", "_oldest", "_pages", "_ranges", "_segments")

    def __init__(self, first: int = 0) -> None:
        self._pages: Pages | None = None
        self._oldest = first
        self._first = first
        self._end = first
        self._segments = array("I")
        self._at = array("I")
        self._lengths = array("I")
        self._ranges: list[_Range] = []

    @property
    def oldest(self) -> int:
        """The lowest instance held; all from it on that were chosen here are held."""
        return self._oldest

    @property
    def end(self) -> int:
        """The number above the last instance that is known; below it some may be unknown."""
        return self._end

    def __len__(self) -> int:
        """Return the number of instances in memory."""
        return len(self._at)

    def put(self, instance: int, position: Position) -> None:
        """Note the position of an instance's value.

        A gap is filled when its instances come, because a log has accepted values out of order.
        """
        assert position.length > 0, "no value is empty"
        if instance < self._oldest:
            return
        if not self._at:
            self._first = instance
        index = instance - self._first
        if index < 0:
            blank = array("I", bytes(-index * 4))
            self._segments, self._at = blank + self._segments, blank + self._at
            self._lengths = blank + self._lengths
            self._first, index = instance, 0
        while index > len(self._at):
            self._push(Position(0, 0, 0))
        if index == len(self._at):
            self._push(position)
        else:
            self._segments[index], self._at[index], self._lengths[index] = position
        self._end = max(self._end, instance + 1)

    def _push(self, position: Position) -> None:
        """Add a position behind all others."""
        self._segments.append(position.segment)
        self._at.append(position.offset)
        self._lengths.append(position.length)

    def get(self, instance: int) -> Position | None:
        """Return the position of an instance's value; None if unknown or compacted away.

        Raises WalDamaged.
        """
        if instance < self._oldest:
            return None
        index = instance - self._first
        if 0 <= index < len(self._at) and self._lengths[index]:
            return Position(self._segments[index], self._at[index], self._lengths[index])
        for segment, first, last, start, rows in reversed(self._ranges):
            if first <= instance <= last:
                assert self._pages is not None
                found = self._pages.instance(segment, start, start + rows, instance)
                if found is not None:
                    return found
        return None

    # -- segments ------------------------------------------------------------------------------

    def attach(
        self, pages: Pages, segment: int, first: int, last: int, row_start: int, rows: int
    ) -> None:
        """Attach a sealed segment, later than those before, which lists instances `first` …
        `last`.
        """
        self._pages = pages
        self._ranges.append(_Range(segment, first, last, row_start, rows))
        self._end = max(self._end, last + 1)

    def forget_attached(self, upto_segment: int) -> None:
        """Drop the positions in memory of segments up to this one, because they are attached."""
        stop = 0
        while stop < len(self._at) and self._segments[stop] <= upto_segment:
            stop += 1
        if stop:
            del self._segments[:stop], self._at[:stop], self._lengths[:stop]
            self._first += stop

    def forget_upto(self, segment: int) -> None:
        """Forget the instances of a segment that lost records, and of all earlier segments.

        A record that is lost may have been a later one of an instance that an earlier segment has,
        too. Then only the lost one has the value that was chosen.
        """
        dropped = [one.last for one in self._ranges if one.segment <= segment]
        if dropped:
            self.remove_below(segment + 1, max(dropped) + 1)
        for index, at in enumerate(self._segments):
            if at <= segment:
                self._lengths[index] = 0

    def remove_below(self, segment: int, oldest: int) -> None:
        """Drop the segments below `segment`, with the last records of instances below `oldest`."""
        self._ranges = [one for one in self._ranges if one.segment >= segment]
        self._oldest = max(self._oldest, oldest)
        self._end = max(self._end, self._oldest)
        stop = min(max(0, self._oldest - self._first), len(self._at))
        if stop:
            del self._segments[:stop], self._at[:stop], self._lengths[:stop]
            self._first += stop
