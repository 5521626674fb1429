"""Which partition: by key, else by idempotency key, else the one the topic is at now.

A key's partition is `blake2b(key, 8 bytes) mod partitions`, for ever: other forwarders, restarts
and later versions must agree on it. Messages with neither key stick to one partition until enough
of them went there, so that batches are large; then the next one with a leader is taken.
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

    def unkeyed(self, messages: int, size_bytes: int) -> Lane:
        """The lane that takes them; one that has no leader only where none has."""
        if (
            self._messages >= self._settings.sticky_messages
            or self._bytes >= self._settings.sticky_bytes
        ):
            self._turn()
        lane = self.lanes[self._at]
        if lane.stalled or not self._has_leader(lane.group):
            other = self._open_lane(self._at)
            if other is not None:
                self._turn(self.lanes.index(other))
                lane = other
        self._messages += messages
        self._bytes += size_bytes
        return lane

    def reroute(self, parcel: Parcel, away_from: Lane) -> bool:
        """Whether another lane took it; bounded, so that no parcel wanders for ever."""
        if parcel.reroutes >= 2 * len(self.lanes):
            return False
        lane = self._open_lane(self.lanes.index(away_from))
        if lane is None:
            return False
        parcel.reroutes += 1
        lane.add(parcel)
        return True

    def _open_lane(self, away_from: int) -> Lane | None:
        """The next lane whose group has a leader and that does not stall."""
        count = len(self.lanes)
        for step in range(1, count):
            lane = self.lanes[(away_from + step) % count]
            if not lane.stalled and self._has_leader(lane.group):
                return lane
        return None

    def _turn(self, to: int | None = None) -> None:
        self._at = (self._at + 1) % len(self.lanes) if to is None else to
        self._messages = self._bytes = 0
