"""The routes into one topic: a `Level` of queue senders for each of its priorities.

A message of priority p goes to lane min(p, priorities − 1) of its partition, so the messages of a
key are in publish order within each priority. A topic without priorities has one level, and p is
kept in the message alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from edge.problem import Problem
from metadata.types import Topic
from openapi.publish import MAX_PRIORITY
from publish_forwarder.failures import topic_full
from publish_forwarder.level import LaneMaker, Level, TopicLane
from publish_forwarder.parcel import Parcel
from publish_forwarder.settings import PublishSettings
from store_nodes.record_batch import Message


class TopicRoutes:
    """The levels of a topic, and their common state."""

    __slots__ = ("by_priority", "draining", "levels", "refusal", "topic")

    def __init__(
        self,
        topic: Topic,
        settings: PublishSettings,
        has_leader: Callable[[int], bool],
        maker: LaneMaker,
    ) -> None:
        self.topic = topic
        self.refusal: Problem | None = topic_full(topic) if topic.full is not None else None
        """The problem that refuses every publish now, or None."""
        self.draining: set[TopicLane] = set()
        """Senders of older queues with unanswered appends: their messages go first."""
        self.levels: Sequence[Level] = tuple(
            Level(topic, number, settings, has_leader, maker, self.draining)
            for number in range(topic.priorities)
        )
        self.by_priority: Sequence[Level] = tuple(
            self.levels[min(priority, topic.priorities - 1)] for priority in range(MAX_PRIORITY + 1)
        )
        """The level of each priority that a message may have."""

    @property
    def idle(self) -> bool:
        return all(lane.idle for lane in self.all_lanes())

    @property
    def several(self) -> bool:
        """Whether the priority of a message changes its lane."""
        return len(self.levels) > 1

    def level_of(self, parcel: Parcel) -> Level:
        """Return the level of an append request, whose messages all have the same."""
        return self.by_priority[parcel.messages[0].priority]

    def of_message(self, message: Message) -> int:
        """Return the number of a message's level."""
        return self.by_priority[message.priority].number

    def open_lanes(self) -> Iterator[TopicLane]:
        """Yield the queue senders of the topic's present queues."""
        for level in self.levels:
            yield from level.lanes
            yield from level.staging.values()

    def all_lanes(self) -> Iterator[TopicLane]:
        for level in self.levels:
            yield from level.all_lanes()
        yield from self.draining

    def first_partitions(self) -> int:
        """Return the number of partitions over which keys were spread when the oldest ids still
        known were new.
        """
        return self.next_partitions(0)

    def next_partitions(self, partitions: int) -> int:
        """Return the number of partitions after the next growth from `partitions`, or now; all
        levels agree.
        """
        return self.levels[0].next_partitions(partitions)

    def place(self, parcel: Parcel, after_us: int = 0) -> list[tuple[TopicLane, Parcel]]:
        """Return the next queue sender of a pinned request."""
        return self.level_of(parcel).place(parcel, after_us)

    def take_in(self, parcels: Iterable[Parcel]) -> None:
        """Take in requests that were accepted for sealed queues, in order, before all later
        ones.
        """
        first: dict[TopicLane, list[Parcel]] = {}
        for parcel in parcels:
            level = self.level_of(parcel)
            if parcel.pinned:
                for lane, part in level.place(parcel):
                    first.setdefault(lane, []).append(part)
            else:
                held = parcel.share.held_messages
                lane = level.unkeyed(len(parcel.messages), parcel.size_bytes, held)
                level.of_kind(lane, parcel).add(parcel)
        for lane, parts in first.items():
            lane.put_first(parts)
