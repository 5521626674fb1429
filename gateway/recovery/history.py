"""The history of a topic after its rows in Postgres were written, told by its queues in the store.

A sealed queue names its successors: one queue of the same partition when it was moved, several when
the topic grew, none when it is being deleted. So history can be played again, one placement after
the other, from the rows as they are to the queues as they are. Moves come before a growth that
follows them, for a growth seals every partition at once.

A sealed queue may have been removed since, for nobody wanted it any more. Then the queues that are
left suffice: the base of the next one is where it ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.topics.placement import queue_of
from metadata.types import Partition, Topic
from openapi.topics import PlacementKind
from store_nodes.client import QueueInfo
from store_nodes.queue_id import QueueId


class Found(NamedTuple):
    """A queue of the store and the group that has it."""

    group: int
    queue: QueueId
    info: QueueInfo


class Step(NamedTuple):
    """A placement that was made, or begun: `groups` has one for each partition that it opens."""

    kind: PlacementKind
    partition: int | None
    groups: tuple[int, ...]


class Queues:
    """The queues of one topic, in every group."""

    def __init__(self, found: Iterable[Found]) -> None:
        self._found: dict[tuple[int, int], list[Found]] = {}
        for one in sorted(found, key=lambda one: one.queue):
            self._found.setdefault((one.queue.partition, one.queue.lane), []).append(one)

    def __iter__(self) -> Iterator[Found]:
        return (one for chain in self._found.values() for one in chain)

    @property
    def partitions(self) -> int:
        """The number of partitions, also if the queues of some are not made yet."""
        named = {QueueId.unpack(raw).partition for one in self for _, raw in one.info.successors}
        return max({number for number, _ in self._found} | named, default=-1) + 1

    @property
    def lanes(self) -> int:
        return max((lane for _, lane in self._found), default=-1) + 1

    def chain(self, number: int, lane: int) -> Sequence[Found]:
        """Return all generations of one lane of a partition that are there, the oldest first."""
        return self._found.get((number, lane), ())

    def of(self, partition: Partition) -> Found | None:
        for one in self.chain(partition.number, partition.lane):
            if one.queue.generation == partition.generation:
                return one
        return None

    def after(self, partition: Partition) -> Found | None:
        """Return the first later generation that is there."""
        for one in self.chain(partition.number, partition.lane):
            if one.queue.generation > partition.generation:
                return one
        return None


def next_step(topic: Topic, queues: Queues, wished: Sequence[int] = ()) -> Step | None:
    """Return the next placement in the topic's history; None if its rows agree with its queues.

    `wished` are the groups of the placement that Postgres knows of, where no queue tells them.
    """
    for part in topic.partitions:
        followers = _followers(queues, part)
        if len(followers) == 1:
            return Step("move", part.number, (followers[0][0],))
    grown = [part for part in topic.partitions if len(_followers(queues, part)) > 1]
    if grown:
        return _growth(topic, queues, _grown_to(queues, grown[0]), wished)
    gone = [part for part in topic.partitions if queues.of(part) is None and queues.after(part)]
    if not gone:
        return None
    if queues.partitions > topic.partition_count:
        return _growth(topic, queues, queues.partitions, wished)
    later = queues.after(gone[0])
    assert later is not None
    return Step("move", gone[0].number, (later.group,))


def _followers(queues: Queues, part: Partition) -> list[tuple[int, QueueId]]:
    found = queues.of(part)
    if found is None:
        return []
    return [(group, QueueId.unpack(raw)) for group, raw in found.info.successors]


def _grown_to(queues: Queues, part: Partition) -> int:
    """Successors are those that equal the partition modulo the step between them."""
    numbers = sorted({queue.partition for _, queue in _followers(queues, part)})
    return len(numbers) * (numbers[1] - numbers[0])


def _growth(topic: Topic, queues: Queues, partitions: int, wished: Sequence[int]) -> Step:
    groups = {part.number: part.group for part in topic.partitions}
    for part in topic.partitions:
        later = queues.after(part)
        if later is not None and later.queue.generation == part.generation + 1:
            groups[part.number] = later.group
    groups |= _told(topic, queues)
    for number in range(partitions):
        if number not in groups and (chain := queues.chain(number, 0)):
            groups[number] = chain[0].group
        elif number not in groups and len(wished) == partitions:
            groups[number] = wished[number]
        elif number not in groups:
            groups[number] = groups[number % topic.partition_count]
    return Step("grow", None, tuple(groups[number] for number in range(partitions)))


def _told(topic: Topic, queues: Queues) -> Mapping[int, int]:
    """Groups by partition, as the sealed queues name them."""
    return {
        queue.partition: group
        for part in topic.partitions
        for group, queue in _followers(queues, part)
    }


def is_deleted(topic: Topic, queues: Queues, deleted: Collection[bytes]) -> bool:
    """Return whether every open queue is deleted, or sealed to be deleted."""
    for part in topic.partitions:
        found, packed = queues.of(part), queue_of(topic.uid, part).pack()
        if found is None and (packed not in deleted or queues.after(part) is not None):
            return False
        if found is not None and (not found.info.sealed or found.info.successors):
            return False
    return True


def first_offset(chain: Sequence[Found]) -> int:
    """Below it, the store has nothing of this lane, but what was kept."""
    for one in chain:
        if one.info.first < one.info.end:
            return one.info.first
    return chain[-1].info.first


def begun_with(queues: Queues) -> list[Found]:
    """Return the oldest queues that are left of the topic's first partitions."""
    made = {
        QueueId.unpack(raw).partition
        for one in queues
        for _, raw in one.info.successors
        if QueueId.unpack(raw).partition != one.queue.partition
        and QueueId.unpack(raw).generation == 0
    }
    first = [
        number
        for number in range(queues.partitions)
        if number not in made and queues.chain(number, 0)
    ]
    count = len(first)
    if first != list(range(count)):
        first = list(range(queues.partitions))
    return [
        queues.chain(number, lane)[0]
        for number in first
        for lane in range(queues.lanes)
        if queues.chain(number, lane)
    ]
