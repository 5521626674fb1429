"""The manifest of a run: the lanes and offsets that it takes. Pure.

It is fixed before anything is read, so that every attempt of a run means the same messages. If a
table ends before the beginning of the log, the run begins with the log; the messages between are
counted as expired, once, since neither has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from metadata.exports.types import Lane, LaneRange


class LaneFacts(NamedTuple):
    """The export begins at `begins`. `reported` is the table's position, None where it says none;
    `known` is the one that is kept here. Below `trimmed_to` nothing is left; `end` is the offset of
    the message that comes next. `table_keeps`: the table would say, were there anything to say."""

    begins: int
    reported: int | None
    known: int
    trimmed_to: int
    end: int
    table_keeps: bool = True

    @property
    def position(self) -> int:
        """All below it is done with."""
        said = self.reported if self.table_keeps else self.known
        return self.begins if said is None else max(said, self.begins)

    @property
    def start(self) -> int:
        return max(self.position, self.trimmed_to)

    @property
    def pending(self) -> int:
        return max(0, self.end - self.start)

    @property
    def expired(self) -> int:
        """Messages that went before the export had them, and are not known to have gone."""
        return max(0, self.trimmed_to - max(self.position, self.known))

    def range_of(self, lane: Lane, messages: int) -> LaneRange:
        """Return the range of the first `messages` pending messages of a lane."""
        said = self.reported if self.table_keeps else None
        behind = said if said is not None and said < self.start else None
        return LaneRange(lane, self.start, self.start + messages, behind)


class Manifest(NamedTuple):
    """`ranges` in order, none of them empty. `more`: there was no room for all."""

    ranges: tuple[LaneRange, ...]
    more: bool


def manifest(lanes: Mapping[Lane, LaneFacts], max_messages: int) -> Manifest:
    """Return a manifest of at most `max_messages` messages, shared evenly between lanes.

    A lane takes less than its share only if it has less, so no lane waits for a longer one.
    """
    room = _shares({lane: facts.pending for lane, facts in lanes.items()}, max_messages)
    ranges = tuple(
        lanes[lane].range_of(lane, room[lane]) for lane in sorted(lanes) if room[lane] > 0
    )
    more = any(room[lane] < facts.pending for lane, facts in lanes.items())
    return Manifest(ranges, more)


def is_there(ranges: Iterable[LaneRange], lanes: Mapping[Lane, LaneFacts]) -> bool:
    """Return whether all messages of a manifest can still be read."""
    return all(each.lane in lanes and each.start >= lanes[each.lane].trimmed_to for each in ranges)


def _shares(pending: Mapping[Lane, int], room: int) -> dict[Lane, int]:
    shares: dict[Lane, int] = {}
    # The lane that wants least comes first, and leaves the rest of its share to the others.
    for place, lane in enumerate(sorted(pending, key=lambda lane: (pending[lane], lane))):
        shares[lane] = min(pending[lane], room // (len(pending) - place))
        room -= shares[lane]
    return shares
