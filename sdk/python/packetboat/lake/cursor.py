"""The position of a reading of a topic's history, from which it can continue later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from packetboat.lake.errors import HistoryMissing


class ReadCursor(msgspec.Struct, frozen=True):
    """The position at which a reading continues; store `str(cursor)`, and read it with
    `ReadCursor.parse`.
    """

    topic: str
    created_at: datetime
    """Tells the topic from a namesake that was made after its deletion."""
    offsets: Mapping[str, int]
    """The next one of each partition, by `"0"`, or by `"0/1"` of a lane of a topic with
    priorities."""

    @classmethod
    def parse(cls, text: str) -> ReadCursor:
        """Raises ValueError for what is no cursor."""
        return msgspec.json.decode(text, type=cls)

    def past(self, missing: HistoryMissing) -> ReadCursor:
        """Return a cursor behind the missing messages, for a reader that continues without them."""
        name = lane_name(missing.partition, missing.lane)
        offsets = {**self.offsets, name: max(missing.end, self.offsets.get(name, 0))}
        return ReadCursor(self.topic, self.created_at, offsets)

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode("ascii")


def lane_name(partition: int, lane: int) -> str:
    """Return the name of a lane in cursors."""
    return f"{partition}/{lane}" if lane else str(partition)
