"""Keeps the order of keys over a growth of their topic.

After a growth from n to m partitions a key of partition h mod n is in h mod m. Earlier messages are
in the generations sealed by the growth, and later ones in those that follow. So that no message of
a key overtakes an older one, a subscription reads on in partition q beyond the growth only when it
has read the sealed generation of each p that could hold keys of q to its end: those that equal q
modulo the greatest common divisor of n and m. That holds for every number n that the topic had
before, not for the last one alone: a partition between them may have been empty, or be trimmed and
removed by now, and then says nothing of what came before it.

Read means delivered once, as within a partition; acks do not matter there either. For a
subscription in order they do: then it waits until all of them are settled, and that is committed: a
process that dies before the commit would deliver them again.

For partitions that other forwarders serve, their committed cursors tell, which are read about once
a second while a barrier stands; a partition without news keeps it up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from metadata.types import CursorState, SealedPartition, Topic
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.lanes import Lane


class Barrier(NamedTuple):
    """Partition `number` is not read on from `base` before each (partition, end) of `behind` is,
    within a lane."""

    number: int
    base: int
    behind: tuple[tuple[int, int], ...]
    lane: int = 0


def barriers(topic: Topic) -> list[Barrier]:
    """Return the barriers of all growths with possibly unread messages, by lane and the
    oldest first.
    """
    return [one for lane in range(topic.priorities) for one in _barriers(topic, lane)]


def _barriers(topic: Topic, lane: int) -> list[Barrier]:
    count = topic.partition_count
    bases: dict[tuple[int, int], int] = {}
    """The first offset of each generation, by the number of partitions at its time, and
    partition.
    """
    ends: dict[tuple[int, int], int] = {}
    """The offset after its last one, by the same key."""
    for number in range(count):
        for generation in topic.generations(number, lane):
            size = count
            if isinstance(generation, SealedPartition):
                size = generation.of_partitions
                ends[size, number] = generation.sealed_at
            bases.setdefault((size, number), generation.base)
    found = []
    for (after, number), base in sorted(bases.items()):
        behind: dict[int, int] = {}
        for (before, other), end in ends.items():
            may_share = before < after and (other - number) % math.gcd(before, after) == 0
            if may_share and other != number:
                behind[other] = max(end, behind.get(other, 0))
        if behind:
            found.append(Barrier(number, base, tuple(sorted(behind.items())), lane))
    return found


class Growth:
    """The barriers of one subscription; costs nothing once all are passed."""

    def __init__(self, flush: Callable[[Reader], None]) -> None:
        """`flush`: a barrier waits for nothing but a commit of this reader."""
        self._flush = flush
        self.partitions = 0
        """The number of partitions of the topic."""
        self._barriers: Sequence[Barrier] = ()
        self._elsewhere: dict[Lane, CursorState] = {}

    @property
    def standing(self) -> bool:
        """Whether a barrier may hold messages back."""
        return bool(self._barriers)

    def follow(self, topic: Topic, readers: Mapping[Lane, Reader]) -> None:
        """Follow the topic and its readers."""
        self.partitions = topic.partition_count
        self._barriers = barriers(topic)
        self.lift(readers)

    def waits_for(self, readers: Mapping[Lane, Reader]) -> set[int]:
        """Return partitions that are not read here, and for which a reader here waits."""
        return {
            other
            for barrier in self._barriers
            if (place := Lane(barrier.number, barrier.lane)) in readers
            and readers[place].limit is not None
            for other, end in barrier.behind
            if (there := Lane(other, barrier.lane)) not in readers
            and not self._done_elsewhere(there, end, readers[place])
        }

    def hear(self, rows: Iterable[CursorState]) -> None:
        """Note committed cursors of partitions that other forwarders serve."""
        for row in rows:
            self._elsewhere[Lane(row.key.partition, row.key.lane)] = row

    def lift(self, readers: Mapping[Lane, Reader]) -> bool:
        """Set each reader's limit to its first barrier; return whether a barrier was lifted."""
        if not self._barriers:
            return False
        limits: dict[Lane, int] = {}
        standing = False
        for barrier in self._barriers:
            place = Lane(barrier.number, barrier.lane)
            if place not in readers:
                standing = True  # it is passed where it is served, and may come to be served here
            elif place not in limits and not self._passed(barrier, readers[place], readers):
                limits[place] = barrier.base
        lifted = False
        for place, reader in readers.items():
            limit = limits.get(place)
            lifted |= reader.limit is not None and (limit is None or limit > reader.limit)
            reader.limit = limit
        if not limits and not standing:
            self._barriers = ()
            self._elsewhere.clear()
        return lifted

    def _passed(self, barrier: Barrier, reader: Reader, readers: Mapping[Lane, Reader]) -> bool:
        for other, end in barrier.behind:
            place = Lane(other, barrier.lane)
            if place in readers:
                if not readers[place].done_to(end):
                    if readers[place].waits_for_commit(end):
                        self._flush(readers[place])
                    return False
            elif not self._done_elsewhere(place, end, reader):
                return False
        return True

    def _done_elsewhere(self, place: Lane, end: int, reader: Reader) -> bool:
        """Do as `Reader.done_to` for the subscription of `reader`, by a committed cursor."""
        row = self._elsewhere.get(place)
        if row is None or row.generation != reader.cursor.generation:
            return False
        if reader.keys is None:
            return row.read_to >= end
        return row.floor >= end and all(one.offset >= end for one in row.stepped_over)
