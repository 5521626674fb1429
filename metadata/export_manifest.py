"""The manifest of a run: which offsets of which lanes it takes. Pure.

It is fixed before anything is read, so that every attempt of a run means the same messages. Where a
table is behind what is left of the log, the run begins with what is left; what lies between is
counted as expired, for it is in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from metadata.export_types import Lane, LaneRange


class LaneFacts(NamedTuple):
    """`position`: all below it is done with; below `trimmed_to` nothing is left; `end` is the
    offset of the message that comes next."""

    position: int
    trimmed_to: int
    end: int

    @property
    def start(self) -> int:
        return max(self.position, self.trimmed_to)

    @property
    def pending(self) -> int:
        return max(0, self.end - self.start)

    @property
    def expired(self) -> int:
        return max(0, self.trimmed_to - self.position)


class Manifest(NamedTuple):
    """`ranges` in order, none of them empty. `more`: there was no room for all. `expired` messages
    were gone from the log before they were exported."""

    ranges: tuple[LaneRange, ...]
    more: bool
    expired: int


def position_of(*, begins: int, known: int, reported: int | None, table_keeps: bool) -> int:
    """Of a lane in which the export begins at `begins`. `known` is kept here; `reported` says the
    table, None where it says nothing; `table_keeps`: it would, were there anything to say."""
    if table_keeps:
        return begins if reported is None else max(reported, begins)
    return max(known, begins)


def manifest(lanes: Mapping[Lane, LaneFacts], max_messages: int) -> Manifest:
    """At most so many messages in all, shared evenly: a lane takes less than its share only where
    it has less, so that none waits for a longer one."""
    room = _shares({lane: facts.pending for lane, facts in lanes.items()}, max_messages)
    ranges = tuple(
        LaneRange(lane, lanes[lane].start, lanes[lane].start + room[lane])
        for lane in sorted(lanes)
        if room[lane] > 0
    )
    more = any(room[lane] < facts.pending for lane, facts in lanes.items())
    return Manifest(ranges, more, sum(facts.expired for facts in lanes.values()))


def is_there(ranges: Iterable[LaneRange], lanes: Mapping[Lane, LaneFacts]) -> bool:
    """Whether all of a manifest can still be read."""
    return all(each.lane in lanes and each.start >= lanes[each.lane].trimmed_to for each in ranges)


def _shares(pending: Mapping[Lane, int], room: int) -> dict[Lane, int]:
    shares: dict[Lane, int] = {}
    # Who wants least comes first: what it leaves of its share is the others'.
    for place, lane in enumerate(sorted(pending, key=lambda lane: (pending[lane], lane))):
        shares[lane] = min(pending[lane], room // (len(pending) - place))
        room -= shares[lane]
    return shares
