"""A topic's history: what the log has no more is read from the table of an export.

`client.read` gives it; tables are read with PyIceberg, the extra `lake`.
"""

from __future__ import annotations

from packetboat.lake.cursor import ReadCursor
from packetboat.lake.errors import HistoryMissing, LakeNotInstalled
from packetboat.lake.read_message import ReadMessage

__all__ = ["HistoryMissing", "LakeNotInstalled", "ReadCursor", "ReadMessage"]
