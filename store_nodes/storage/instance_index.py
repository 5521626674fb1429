"""Where each chosen instance of a group lies in this node's log: local, rebuilt at start.

16 packed bytes an instance. A peer that lags too far for memory is fed through it.
"""

from __future__ import annotations

from array import array

from store_nodes.wal.position import Position


class InstanceIndex:
    """Positions of the values of consecutive instances from `first` on."""

    __slots__ = ("_at", "_lengths", "_segments", "first")

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._segments = array("I")
        self._at = array("Q")
        self._lengths = array("I")

    @property
    def end(self) -> int:
        """Above the last instance that is known; below it some may not be."""
        return self.first + len(self._at)

    def put(self, instance: int, position: Position) -> None:
        """The value of `instance` lies there. A later record of an instance replaces an earlier
        one; a gap is filled when its instances come: a log holds what was accepted, out of order.
        """
        assert position.length > 0, "no value is empty"
        index = instance - self.first
        if index < 0:
            return
        while index > len(self._at):
            self._segments.append(0)
            self._at.append(0)
            self._lengths.append(0)
        if index == len(self._at):
            self._segments.append(position.segment)
            self._at.append(position.offset)
            self._lengths.append(position.length)
        else:
            self._segments[index] = position.segment
            self._at[index] = position.offset
            self._lengths[index] = position.length

    def get(self, instance: int) -> Position | None:
        index = instance - self.first
        if not 0 <= index < len(self._at) or not self._lengths[index]:
            return None
        return Position(self._segments[index], self._at[index], self._lengths[index])
