"""The routes into one topic: a `Partitioner` of queue senders for each of its priorities.

A message of priority p goes to lane min(p, priorities − 1) of its partition, so the messages of a
key are in publish order within each priority. A topic without priorities has one partitioner, and
p is kept in the message alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from edge.problem import Problem
from metadata.types import Topic
from openapi.publish import MAX_PRIORITY
from publish_forwarder.append_request import AppendRequest
from publish_forwarder.failures import topic_full
from publish_forwarder.partitioner import Partitioner, TopicSender
from publish_forwarder.settings import PublishSettings
from store_nodes.record_batch import Message

if TYPE_CHECKING:
    from publish_forwarder.topic_senders import TopicSenders


class TopicRoutes:
    """The partitioners of a topic, and their common state."""

    __slots__ = ("by_priority", "draining", "partitioners", "refusal", "topic")

    def __init__(
        self,
        topic: Topic,
        settings: PublishSettings,
        has_leader: Callable[[int], bool],
        maker: TopicSenders,
    ) -> None:
        self.topic = topic
        self.refusal: Problem | None = topic_full(topic) if topic.full is not None else None
        """The problem that refuses every publish now, or None."""
        self.draining: set[TopicSender] = set()
        """Senders of older queues with unanswered appends: their messages go first."""
        self.partitioners: Sequence[Partitioner] = tuple(
            Partitioner(topic, lane, settings, has_leader, maker, self.draining)
            for lane in range(topic.priorities)
        )
        self.by_priority: Sequence[Partitioner] = tuple(
            self.partitioners[min(priority, topic.priorities - 1)]
            for priority in range(MAX_PRIORITY + 1)
        )
        """The partitioner of each priority that a message may have."""

    @property
    def idle(self) -> bool:
        return all(sender.idle for sender in self.all_senders())

    @property
    def several(self) -> bool:
        """Whether the priority of a message changes its lane."""
        return len(self.partitioners) > 1

    def partitioner_of(self, request: AppendRequest) -> Partitioner:
        """Return the partitioner of an append request, whose messages all have the same."""
        return self.by_priority[request.messages[0].priority]

    def lane_of(self, message: Message) -> int:
        """Return the lane of a message's partition that it goes to."""
        return self.by_priority[message.priority].lane

    def open_senders(self) -> Iterator[TopicSender]:
        """Yield the queue senders of the topic's present queues."""
        for partitioner in self.partitioners:
            yield from partitioner.senders
            yield from partitioner.staging.values()

    def all_senders(self) -> Iterator[TopicSender]:
        for partitioner in self.partitioners:
            yield from partitioner.all_senders()
        yield from self.draining

    def first_partitions(self) -> int:
        """Return the number of partitions over which keys were spread when the oldest ids still
        known were new.
        """
        return self.next_partitions(0)

    def next_partitions(self, partitions: int) -> int:
        """Return the number of partitions after the next growth from `partitions`, or now; all
        partitioners agree.
        """
        return self.partitioners[0].next_partitions(partitions)

    def place(
        self, request: AppendRequest, after_us: int = 0
    ) -> list[tuple[TopicSender, AppendRequest]]:
        """Return the next queue sender of a pinned request."""
        return self.partitioner_of(request).place(request, after_us)

    def take_in(self, requests: Iterable[AppendRequest]) -> None:
        """Take in requests that were accepted for sealed queues, in order, before all later
        ones.
        """
        first: dict[TopicSender, list[AppendRequest]] = {}
        for request in requests:
            partitioner = self.partitioner_of(request)
            if request.pinned:
                for sender, part in partitioner.place(request):
                    first.setdefault(sender, []).append(part)
            else:
                held = request.share.held_messages
                sender = partitioner.unkeyed(len(request.messages), request.size_bytes, held)
                partitioner.of_kind(sender, request).add(request)
        for sender, parts in first.items():
            sender.put_first(parts)
