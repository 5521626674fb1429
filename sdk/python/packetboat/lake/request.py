"""The request of a reading of a topic's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from packetboat.calls.call import moment
from packetboat.lake.cursor import ReadCursor

FromOffset = Literal["earliest"] | int | Mapping[str, int]
"""The first there is; an offset of every partition; or by partition, `"0"`, or by partition and
lane, `"0/1"`: what is not named begins with the first there is."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Checked as it is made: raises ValueError for what goes against each other."""

    topic: str
    from_time: datetime | None = None
    from_offset: FromOffset | None = None
    to_time: datetime | None = None
    partitions: frozenset[int] | None = None
    cursor: ReadCursor | None = None
    storage: Mapping[str, str] | None = None
    follow: bool = False
    page_size: int = 1000
    timeout_s: float | None = None
    """The timeout of each request to the server."""

    @classmethod
    def of(
        cls,
        topic: str,
        from_time: datetime | None,
        from_offset: FromOffset | None,
        to_time: datetime | None,
        partitions: Sequence[int] | None,
        cursor: ReadCursor | str | None,
        storage: Mapping[str, str] | None,
        follow: bool,
        page_size: int,
        timeout_s: float | None,
    ) -> ReadRequest:
        """Return the request for a caller's arguments."""
        return cls(
            topic,
            from_time,
            from_offset,
            to_time,
            None if partitions is None else frozenset(partitions),
            ReadCursor.parse(cursor) if isinstance(cursor, str) else cursor,
            storage,
            follow,
            page_size,
            timeout_s,
        )

    def __post_init__(self) -> None:
        moment(self.from_time)
        moment(self.to_time)
        begins = (self.from_time, self.from_offset, self.cursor)
        if sum(each is not None for each in begins) > 1:
            raise ValueError("from_time, from_offset and cursor: one of them at most")
        if self.follow and self.to_time is not None:
            raise ValueError("with follow there is no end: give no to_time")
        if self.cursor is not None and self.cursor.topic != self.topic:
            raise ValueError(f"the cursor is of the topic {self.cursor.topic}")

    def offset_of(self, lane_name: str) -> int | None:
        """Return the requested start of a lane; None for its first message."""
        if self.cursor is not None:
            return self.cursor.offsets.get(lane_name)
        if isinstance(self.from_offset, Mapping):
            return self.from_offset.get(lane_name)
        return self.from_offset if isinstance(self.from_offset, int) else None
