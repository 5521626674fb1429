"""Which partition: by key, else by idempotency key, else the one the topic is at now.

A key's partition is `blake2b(key, 8 bytes) mod partitions`, for ever: other forwarders, restarts
and later versions must agree on it. Messages with neither key stick to one partition until enough
of them went there, then the next one with a leader is taken: what waits while an append is in
flight goes in the next one, so few large appends are in flight rather than a small one per
partition. (Measured at 256 single publishes outstanding, 4 partitions: turning after 256 messages
costs half of what turning after 64 does at the store nodes.) While there is little to batch, a
message takes an idle partition instead of waiting for an answer to others.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from metadata.types import Topic
from publish_forwarder.coalescer import Lane, Parcel
from publish_forwarder.settings import PublishSettings
from store_nodes.record_batch import Message


def partition_of(key: str, partitions: int) -> int:
    """Stable over processes, machines and versions."""
    digest = blake2b(key.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions


def routing_key(message: Message) -> str | None:
    """What decides the partition, or None: then any may take it."""
    return message.key if message.key is not None else message.idempotency_key


class TopicRoutes:
    """The lanes of one topic in partition order, and where its unkeyed messages go now."""

    __slots__ = ("_at", "_bytes", "_has_leader", "_messages", "_settings", "lanes", "topic")

    def __init__(
        self, topic: Topic, settings: PublishSettings, has_leader: Callable[[int], bool]
    ) -> None:
        self.topic = topic
        self.lanes: list[Lane] = []
        self._settings = settings
        self._has_leader = has_leader
        self._at = 0
        self._messages = 0
        self._bytes = 0

    @property
    def idle(self) -> bool:
        return all(lane.idle for lane in self.lanes)

    def keyed(self, key: str) -> Lane:
        return self.lanes[partition_of(key, len(self.lanes))]

    def unkeyed(self, messages: int, size_bytes: int, unanswered: int) -> Lane:
        """The lane that takes them; one that has no leader only where none has.

        `unanswered` is how many messages the tenant waits for: while they are few, an idle lane is
        better than a full batch.
        """
        settings = self._settings
        if self._messages >= settings.sticky_messages or self._bytes >= settings.sticky_bytes:
            self._turn((self._at + 1) % len(self.lanes))
        lane = self.lanes[self._at]
        if lane.stalled or not self._has_leader(lane.group):
            other = self._open_lane(self._at)
            if other is not None:
                self._turn(other)
                lane = self.lanes[other]
        if unanswered <= settings.spread_messages and not lane.idle:
            other = self._open_lane(self._at, idle=True)
            if other is not None:
                return self.lanes[other]
        self._messages += messages
        self._bytes += size_bytes
        return lane

    def reroute(self, parcel: Parcel, away_from: Lane) -> bool:
        """Whether another lane took it; bounded, so that no parcel wanders for ever."""
        if parcel.reroutes >= 2 * len(self.lanes):
            return False
        other = self._open_lane(self.lanes.index(away_from))
        if other is None:
            return False
        parcel.reroutes += 1
        self.lanes[other].add(parcel)
        return True

    def _open_lane(self, away_from: int, idle: bool = False) -> int | None:
        """The next one whose group has a leader and that does not stall."""
        count = len(self.lanes)
        for step in range(1, count):
            at = (away_from + step) % count
            lane = self.lanes[at]
            if not lane.stalled and (lane.idle or not idle) and self._has_leader(lane.group):
                return at
        return None

    def _turn(self, to: int) -> None:
        self._at = to
        self._messages = self._bytes = 0
