"""Names a queue; a name is never reused, so a topic made again shares nothing with its namesake."""

from __future__ import annotations

import struct
from typing import NamedTuple

_LAYOUT = struct.Struct(">16sIBI")
QUEUE_ID_BYTES = _LAYOUT.size
pack_queue_id = _LAYOUT.pack
"""Returns `QueueId(…).pack()` of the same arguments; for loops over all queues."""


class QueueId(NamedTuple):
    """(topic uid, partition u32, lane u8, generation u32); 25 bytes, big-endian, on every wire."""

    topic_uid: bytes
    partition: int
    lane: int = 0
    generation: int = 0

    def pack(self) -> bytes:
        """Return the 25 bytes of the name."""
        return _LAYOUT.pack(*self)

    @classmethod
    def unpack(cls, raw: bytes | memoryview) -> QueueId:
        return cls(*_LAYOUT.unpack(raw))

    def __str__(self) -> str:
        return f"{self.topic_uid.hex()}/{self.partition}.{self.lane}.{self.generation}"
