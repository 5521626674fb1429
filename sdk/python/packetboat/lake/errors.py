"""The errors of a reading of history."""

from __future__ import annotations

from packetboat.errors import PacketboatError
from packetboat.extras import install


class HistoryMissing(PacketboatError):
    """Neither the log nor a table of an export has these messages of a partition: the offsets
    `start` … `end` − 1 of `lane`, which is 0 but in topics with priorities."""

    def __init__(self, topic: str, partition: int, lane: int, start: int, end: int) -> None:
        place = f"partition {partition}" + (f", lane {lane}" if lane else "")
        super().__init__(
            f"{topic}, {place}: the offsets {start} to {end - 1} are neither in the log nor in the "
            "table of an export that takes all messages"
        )
        self.topic = topic
        self.partition = partition
        self.lane = lane
        self.start = start
        self.end = end


class LakeNotInstalled(PacketboatError):
    """Raised when the messages are in a table, and the extra that reads tables is not installed."""

    def __init__(self, export: str) -> None:
        super().__init__(
            f"the messages are in the table of the export {export}, which needs an extra: "
            f"{install('lake')}"
        )
