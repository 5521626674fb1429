"""Chooses the partition of a message: by its key, else by its idempotency key, else in turn.

A key's partition is `blake2b(key, 8 bytes) mod partitions`, for ever: other forwarders, restarts
and later versions must agree on it. Messages with neither key stick to one partition until enough
of them went there; then the next one with a leader is taken. Messages that wait while an append is
in flight go in the next append, so a few large appends are in flight rather than a small one per
partition. (Measured at 256 single publishes outstanding, 4 partitions: turning after 256 messages
costs the store nodes half of what turning after 64 does.) If nothing is under way in that
partition, there is nothing to batch with, and the next idle one is taken: so all partitions get
messages of a slow publisher, and a fast one loses nothing. While there is little to batch, a
message takes an idle partition instead of waiting for an answer to others.

Each priority of a topic is spread in this way on its own. All lanes of a partition are in one
group, so an id is known there whatever priority a repetition has; a key's partition is the same for
all priorities.

A group knows the ids of the messages that were stored there. So while a topic's dedup window after
a move or a growth lasts, messages with ids go to their open queue by way of the sealed queues that
may have them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING

from appending.sender import QueueSender
from edge.partition import partition_of
from metadata.types import Partition, SealedPartition, Topic
from publish_forwarder.append_request import AppendRequest
from publish_forwarder.batches import BatchPart
from publish_forwarder.settings import PublishSettings
from store_nodes.commands import REMEMBERED_WINDOWS
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message

if TYPE_CHECKING:
    from publish_forwarder.topic_senders import TopicSenders

TopicSender = QueueSender[AppendRequest]


def routing_key(message: Message) -> str | None:
    """Return the key that decides the partition; None lets any partition take the message."""
    return message.key if message.key is not None else message.idempotency_key


def queue_of(topic: Topic, partition: Partition) -> QueueId:
    """Return the open queue of a partition."""
    return QueueId(topic.uid, partition.number, partition.lane, partition.generation)


class Partitioner:
    """The queue senders of one priority of a topic, and the partition in turn for unkeyed
    messages.
    """

    __slots__ = (
        "_at",
        "_bytes",
        "_draining",
        "_has_leader",
        "_maker",
        "_messages",
        "_recent",
        "_settings",
        "lane",
        "partitions",
        "probes",
        "senders",
        "staging",
        "topic",
    )

    def __init__(
        self,
        topic: Topic,
        lane: int,
        settings: PublishSettings,
        has_leader: Callable[[int], bool],
        maker: TopicSenders,
        draining: Set[TopicSender],
    ) -> None:
        self.topic = topic
        self.lane = lane
        self.partitions = topic.partitions[lane :: topic.priorities]
        """The open queues, by partition."""
        self.senders: list[TopicSender] = []
        """The senders to the open queues, by partition."""
        self.staging: dict[int, TopicSender] = {}
        """The staging senders by partition, once something was published there with a delay."""
        self.probes: dict[QueueId, TopicSender] = {}
        self._draining = draining
        self._settings = settings
        self._has_leader = has_leader
        self._maker = maker
        sealed = (one for one in topic.sealed if one.of_partitions and one.lane == lane)
        self._recent = tuple(sorted(sealed, key=lambda one: one.sealed_time_us))
        self._at = 0
        self._messages = 0
        self._bytes = 0

    def all_senders(self) -> Iterator[TopicSender]:
        yield from self.senders
        yield from self.staging.values()
        yield from self.probes.values()

    def keyed(self, key: str) -> TopicSender:
        """Return the queue sender for a message without an id."""
        at = partition_of(key, len(self.senders))
        return self._asking(key, at, 0, has_ids=False) or self.senders[at]

    def unkeyed(self, messages: int, size_bytes: int, unanswered: int) -> TopicSender:
        """Return the queue sender for messages without a key. It has no leader only if none has
        one.

        `unanswered` is the number of messages that the tenant waits for: while they are few, an
        idle sender is better than a full batch.
        """
        settings = self._settings
        if self._messages >= settings.sticky_messages or self._bytes >= settings.sticky_bytes:
            self._turn((self._at + 1) % len(self.senders))
        sender = self.senders[self._at]
        if sender.stalled or not self._has_leader(sender.group):
            other = self._open_sender(self._at)
            if other is not None:
                self._turn(other)
                sender = self.senders[other]
        elif self._messages and sender.idle:
            # Nothing here could share an append with it, so the next partition costs as much.
            other = self._open_sender(self._at, idle=True)
            if other is not None:
                self._turn(other)
                sender = self.senders[other]
        if unanswered <= settings.spread_messages and not sender.idle:
            other = self._open_sender(self._at, idle=True)
            if other is not None:
                return self.senders[other]
        self._messages += messages
        self._bytes += size_bytes
        return sender

    def of_kind(self, sender: TopicSender, request: AppendRequest) -> TopicSender:
        """Return the sender, or the staging one of its partition if the messages have a delay."""
        if request.due_us is None:
            return sender
        return self._stage_sender(sender.partition)

    def reroute(self, request: AppendRequest, away_from: TopicSender) -> bool:
        """Give a request to another queue sender; return whether one took it.

        The number of reroutes is bounded, so that no request moves for ever.
        """
        if request.reroutes >= 2 * len(self.senders):
            return False
        other = self._open_sender(min(away_from.partition, len(self.senders) - 1))
        if other is None:
            return False
        request.reroutes += 1
        self.of_kind(self.senders[other], request).add(request)
        return True

    def next_partitions(self, partitions: int) -> int:
        """Return the number of partitions after the next growth from `partitions`, or the present
        one.
        """
        later = (one.of_partitions for one in self._remembered() if one.of_partitions > partitions)
        return min(later, default=len(self.senders))

    def place(
        self, request: AppendRequest, after_us: int = 0
    ) -> list[tuple[TopicSender, AppendRequest]]:
        """Return the next queue sender of a pinned request, which is cut if its messages go
        different ways.

        The list is empty if the request waits for the other parts of its batch. The queues sealed
        until `after_us` have been asked already.
        """
        ids = request.ids
        if ids is not None and ids.part is not None:
            sender = self._next_of_part(request, ids.part, after_us)
            if sender is None:
                ids.part.batch.wait(request)
                return []
            return [(sender, request)]
        if len(request.messages) == 1:
            key = routing_key(request.messages[0])
            assert key is not None
            return [(self._next(key, request, after_us), request)]
        ways: dict[TopicSender, list[int]] = {}
        for index, message in enumerate(request.messages):
            key = routing_key(message)
            assert key is not None
            ways.setdefault(self._next(key, request, after_us), []).append(index)
        if len(ways) == 1:
            (sender,) = ways
            return [(sender, request)]
        return list(zip(ways, request.cut(list(ways.values())), strict=True))

    def _next(self, key: str, request: AppendRequest, after_us: int) -> TopicSender:
        at = partition_of(key, len(self.senders))
        asking = self._asking(key, at, after_us, has_ids=request.ids is not None)
        return asking or self.of_kind(self.senders[at], request)

    def _asking(self, key: str, at: int, after_us: int, *, has_ids: bool) -> TopicSender | None:
        """Return the sender of a sealed queue that must be asked first, or None.

        A message without an id has nothing to ask, but must not pass messages that ask for the same
        partition.
        """
        for sealed in self._remembered():
            number = partition_of(key, sealed.of_partitions)
            if number == sealed.number and self._worth_asking(sealed, at, after_us):
                sender = self._probe(sealed)
                if has_ids or not sender.idle:
                    return sender
        return None

    def _next_of_part(
        self, request: AppendRequest, part: BatchPart, after_us: int
    ) -> TopicSender | None:
        """Return the next sender of a part, as long as keys are spread as its id says; None after
        that.
        """
        for sealed in self._remembered():
            if (sealed.of_partitions, sealed.number) == (
                part.partitions,
                part.partition,
            ) and self._worth_asking(sealed, part.partition, after_us):
                return self._probe(sealed)
        if part.partitions != len(self.senders):
            return None
        return self.of_kind(self.senders[part.partition], request)

    def _worth_asking(self, sealed: SealedPartition, at: int, after_us: int) -> bool:
        """Return whether to ask a sealed queue: not again, and not if the open queue's group
        answers the same.
        """
        here = self.partitions[at].group, len(self.senders)
        return sealed.sealed_time_us > after_us and (sealed.group, sealed.of_partitions) != here

    def _remembered(self) -> tuple[SealedPartition, ...]:
        """Return the sealed queues whose groups may still know ids of messages that now go
        elsewhere.
        """
        if not self._recent:
            return ()
        window_us = int(self.topic.dedup_window_s * REMEMBERED_WINDOWS * 1e6)
        oldest_us = time.time_ns() // 1000 - window_us
        if self._recent[0].sealed_time_us < oldest_us:
            self._recent = tuple(s for s in self._recent if s.sealed_time_us >= oldest_us)
        return self._recent

    def _probe(self, sealed: SealedPartition) -> TopicSender:
        queue = QueueId(self.topic.uid, sealed.number, sealed.lane, sealed.generation)
        sender = self.probes.get(queue)
        if sender is None:
            sender = self.probes[queue] = self._maker.probe_sender(self.topic, sealed)
        return sender

    def _stage_sender(self, at: int) -> TopicSender:
        sender = self.staging.get(at)
        if sender is None:
            sender = self.staging[at] = self._maker.stage_sender(self.topic, self.partitions[at])
            if self._draining:
                sender.hold()
        return sender

    def _open_sender(self, away_from: int, idle: bool = False) -> int | None:
        """Return the next partition whose group has a leader and whose sender does not stall, or
        None.
        """
        count = len(self.senders)
        for step in range(1, count):
            at = (away_from + step) % count
            sender = self.senders[at]
            if not sender.stalled and (sender.idle or not idle) and self._has_leader(sender.group):
                return at
        return None

    def _turn(self, to: int) -> None:
        self._at = to
        self._messages = self._bytes = 0
