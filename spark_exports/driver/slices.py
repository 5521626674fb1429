"""Ranges split into slices, one for each task.

A task reads a slice from its start to its end, so its files are in the order of offsets without any
sorting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from packetboat.models.export_runs import LaneRange

SLICE_MESSAGES = 100_000
"""Messages of a slice: a lost task loses its work, progress is per task, and a task writes a
file.
"""


class Span(msgspec.Struct, frozen=True):
    """The offsets `first` … `last` that a task saw of a lane."""

    topic: str
    partition: int
    lane: int
    first: int
    last: int

    def overlaps(self, piece: LaneRange) -> bool:
        key = piece.key
        return (
            (self.topic, self.partition, self.lane) == (key.topic, key.partition, key.lane)
            and self.first < piece.end
            and self.last >= piece.start
        )


def sliced(ranges: Iterable[LaneRange], messages: int = SLICE_MESSAGES) -> list[LaneRange]:
    """Split ranges into slices in order, with at most `messages` each; empty ranges are left
    out.
    """
    return [
        LaneRange(one.key, start, min(start + messages, one.end))
        for one in sorted(ranges)
        for start in range(one.start, one.end, messages)
    ]


def messages_in(ranges: Iterable[LaneRange]) -> int:
    return sum(one.end - one.start for one in ranges)


def touched(slices: Sequence[LaneRange], spans: Sequence[Span]) -> list[LaneRange]:
    """Return the slices that overlap some of the spans."""
    return [piece for piece in slices if any(span.overlaps(piece) for span in spans)]
