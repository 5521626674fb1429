"""Messages that wait, in the order in which they go."""

from __future__ import annotations

from collections import deque
from zlib import crc32

from packetboat.publisher.pending import Kind, Pending

KEY_SHARDS = 64


class Shard:
    """The messages of some keys, of which one batch at most holds any; or, with `keys` false, those
    without a key of one kind, which are in no order."""

    __slots__ = ("busy", "keys", "queue")

    def __init__(self, keys: bool) -> None:
        self.queue: deque[Pending] = deque()
        self.keys: bool = keys
        self.busy: bool = False
        """A batch has messages of it."""

    def take(self, kind: Kind, max_messages: int, max_bytes: int, into: list[Pending]) -> int:
        """Moves messages of that kind from its front; how many bytes. At least one is taken into
        an empty list, if its kind is right."""
        queue = self.queue
        taken_bytes = 0
        while queue and len(into) < max_messages:
            message = queue[0]
            size_bytes = len(message.encoded)
            if message.kind != kind or (taken_bytes + size_bytes > max_bytes and into):
                break
            into.append(queue.popleft())
            taken_bytes += size_bytes
        return taken_bytes


def shard_of(key: str) -> int:
    """Return the number of the shard to which a key belongs."""
    return crc32(key.encode()) % KEY_SHARDS
