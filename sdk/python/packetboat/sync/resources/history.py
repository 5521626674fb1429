# Generated from aio/resources/history.py: `make generate`. Do not edit.
"""A topic's history, from the lake and the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from packetboat.lake.cursor import ReadCursor
from packetboat.lake.request import FromOffset, ReadRequest
from packetboat.sync.resources.readings import Reading
from packetboat.sync.sender import Sender


class History:
    """A topic's history, from the lake and the log."""

    _sender: Sender

    def read(
        self,
        topic: str,
        *,
        from_time: datetime | None = None,
        from_offset: FromOffset | None = None,
        to_time: datetime | None = None,
        partitions: Sequence[int] | None = None,
        cursor: ReadCursor | str | None = None,
        storage: Mapping[str, str] | None = None,
        follow: bool = False,
        page_size: int = 1000,
        timeout_s: float | None = None,
    ) -> Reading:
        """The messages of a topic, also those that the log has no more: they are read from the
        table of an export (the extra `lake`), without a gap and none twice.

        From a moment with a zone; from an offset of every partition, or of each by its name
        (`{"0": 5}`, with priorities `{"0/1": 5}`); or from where a `cursor` of an earlier reading
        is; else from the first that anything has. Up to `to_time`, which is not included, or to
        what the log's end is at the beginning; with `follow` for ever. `storage`: how to reach the
        lake, as PyIceberg's properties (`s3.endpoint`, …). `timeout_s` bounds each
        request to the server, with all its tries.

        Nothing is asked before the first message is. Raises HistoryMissing where neither log nor
        table has what is next, LakeNotInstalled, and ValueError for what goes against each other.
        """
        request = ReadRequest.of(
            topic,
            from_time,
            from_offset,
            to_time,
            partitions,
            cursor,
            storage,
            follow,
            page_size,
            timeout_s,
        )
        return Reading(self._sender, request)
