"""One lane of a partition, read from the lake and the log.

`at` is the offset that is read next: a lane goes up, one by one. Below the log's first offset rows
come from a table; from there on the log is read. The log answers 410 where it was truncated
meanwhile, and the table, looked at anew, has what went; where it has not, HistoryMissing says so.
So each offset comes once, whatever moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import count, takewhile

from packetboat.aio.resources.lake_tables import AsyncLakeTables
from packetboat.aio.sender import AsyncSender
from packetboat.aio.waiting import apart
from packetboat.calls import consuming
from packetboat.calls import messaging as calls
from packetboat.errors import InvalidRequest
from packetboat.lake.cursor import lane_name
from packetboat.lake.errors import HistoryMissing
from packetboat.lake.read_message import ReadMessage, of_log
from packetboat.lake.request import ReadRequest

LOOKS = 3
"""The limit of readings of a table anew, when its files are gone because a clean-up removed
them.
"""
LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00Z")


class AsyncLaneReading:
    """`begin` first, then page by page."""

    def __init__(
        self,
        sender: AsyncSender,
        tables: AsyncLakeTables,
        request: ReadRequest,
        partition: int,
        lane: int,
    ) -> None:
        self.name: str = lane_name(partition, lane)
        self.at: int = 0
        self.end: int = 0
        """One past the last that the log had at the beginning."""
        self._sender = sender
        self._tables = tables
        self._request = request
        self._partition = partition
        self._lane = lane
        self._first = 0
        """The first offset of the log, as far as is known."""

    async def begin(self, *, grown: bool = False) -> None:
        """Finds out where it begins. Raises HistoryMissing where that cannot be told. `grown`: it
        was not there when the reading began, and is read from its first message on."""
        request = self._request
        since = request.from_time
        call = calls.offsets_of_partition(
            request.topic, self._partition, since or LONG_AGO, self._lane
        )
        found = await self._sender.send(call, request.timeout_s)
        self._first, self.end = found.first, found.end
        asked = None if grown else request.offset_of(self.name)
        if asked is not None:
            self.at = asked
        elif found.first == 0 or (since is not None and found.at > found.first):
            self.at = found.at
        else:
            self.at = await (self._earliest() if since is None else self._since(since))

    async def page(self, wait_seconds: float | None) -> Sequence[ReadMessage]:
        """Return the next messages, of the log or of a table; none if there are none now."""
        if self.at >= self._first:
            messages = await self._of_log(wait_seconds)
            if messages or self.at >= self._first:
                return messages
        return await self._of_lake()

    async def _of_log(self, wait_seconds: float | None) -> Sequence[ReadMessage]:
        """Return the next messages of the log.

        Return none, and set `_first` above `at`, if the log no longer has them.
        """
        request = self._request
        call = consuming.replay(
            request.topic,
            self._partition,
            self.at,
            end_offset=None if request.follow else self.end,
            lane=self._lane,
            max_messages=request.page_size,
            wait_seconds=wait_seconds,
        )
        try:
            page = await self._sender.send(call, request.timeout_s)
        except InvalidRequest as error:
            if error.status != 410:
                raise
            self._first = max(int(error.problem.members["first_offset"]), self.at + 1)
            return ()
        numbered = zip(page.messages, count(self.at), strict=False)
        following = takewhile(lambda each: each[0].offset == each[1], numbered)
        found = [of_log(request.topic, self._lane, message) for message, _ in following]
        if found:
            self.at = found[-1].offset + 1
        elif page.messages:
            self._first = page.messages[0].offset or 0
        elif page.next_offset > self.at:
            self._first = page.next_offset
        return found

    async def _of_lake(self) -> Sequence[ReadMessage]:
        """Raises HistoryMissing."""
        end = self._first if self._request.follow else min(self._first, self.end)
        for look in range(1 + LOOKS):
            try:
                for table in await self._tables.all(anew=look > 0):
                    found = await apart(table.rows, self._partition, self._lane, self.at, end)
                    if found:
                        self.at = found[-1].offset + 1
                        return found
            except OSError:
                if look == LOOKS:
                    raise
                continue
            if look > 0:
                break
        raise await self._missing(self.at, end)

    async def _missing(self, start: int, end: int) -> HistoryMissing:
        """Return the gap from `start` to the first offset that a table has, or to `end`."""
        for table in await self._tables.all():
            found = await apart(table.first, self._partition, self._lane, start=start)
            end = end if found is None else min(end, found)
        return HistoryMissing(self._request.topic, self._partition, self._lane, start, end)

    async def _earliest(self) -> int:
        """Return the first offset in the log or a table."""
        offsets = [self._first]
        for table in await self._tables.all():
            found = await apart(table.first, self._partition, self._lane)
            offsets += [] if found is None else [found]
        return min(offsets)

    async def _since(self, time: datetime) -> int:
        """Return the first offset of a time that may be before the start of the log.

        The offset is known to be the first where the one before it is present, which was published
        earlier.
        """
        start = self._first
        tables = await self._tables.all()
        for table in tables:
            found = await apart(table.first, self._partition, self._lane, since=time)
            start = start if found is None else min(start, found)
        if start == 0:
            return 0
        for table in tables:
            if await apart(table.rows, self._partition, self._lane, start - 1, start):
                return start
        raise HistoryMissing(self._request.topic, self._partition, self._lane, 0, start)
