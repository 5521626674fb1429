# Generated from aio/resources/history.py: `make generate`. Do not edit.
"""A topic's history, from the lake and the log, message by message.

A partition is read lane by lane. `at` is the offset that a lane reads next; it goes up, one by one.
Below the log's first offset rows come from a table; from there on the log is read. The log answers
410 where it was truncated meanwhile, and the table, looked at anew, has what went; where it has
not, HistoryMissing says so. So each offset comes once, whatever moves.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from itertools import count, takewhile

from packetboat.calls import consuming, exports, messaging
from packetboat.calls.call import long_poll_s
from packetboat.errors import InvalidRequest, NotFound
from packetboat.lake.cursor import ReadCursor, lane_name
from packetboat.lake.errors import HistoryMissing
from packetboat.lake.finding import TableOfTopic, has_all, open_table
from packetboat.lake.read_message import ReadMessage, of_log
from packetboat.lake.request import FromOffset, ReadRequest
from packetboat.models import Topic
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender
from packetboat.sync.waiting import apart, pause

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0
LONG_POLL_S = 20.0
"""Seconds of a long poll where there is one lane; several lanes are asked in turn."""
GROWTH_S = 30.0
"""Seconds between two looks for new partitions of the topic."""
LOOKS = 3
"""The limit of readings of a table anew, when its files are gone because a clean-up removed
them.
"""
LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00Z")


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


class Reading:
    """Made by `client.read`; iterate over it, once. Pages of the partitions take turns; those of
    one come in the order of offsets."""

    def __init__(self, sender: Sender, request: ReadRequest) -> None:
        self._sender = sender
        self._request = request
        self._tables = LakeTables(sender, request)
        self._topic: Topic | None = None
        self._offsets: dict[str, int] = {}
        self._messages = self._read()

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> ReadMessage:
        return self._messages.__next__()

    @property
    def cursor(self) -> ReadCursor:
        """Behind the message that came last: `client.read(topic, cursor=…)` goes on there. Raises
        RuntimeError while it is not known where all partitions begin, which the first message
        waits for."""
        if self._topic is None:
            raise RuntimeError("a reading has a cursor once its first message came")
        return ReadCursor(self._topic.name, self._topic.created_at, dict(self._offsets))

    def _read(self) -> Generator[ReadMessage, None, None]:
        request = self._request
        lanes = self._begun()
        pause_s, grown_s = FIRST_PAUSE_S, time.monotonic()
        while lanes:
            came = False
            polled = request.follow and len(lanes) == 1
            wait_s = long_poll_s(LONG_POLL_S, request.timeout_s) if polled else None
            for lane in tuple(lanes):
                for message in lane.page(wait_s):
                    if request.to_time is not None and message.publish_time >= request.to_time:
                        lanes.remove(lane)
                        break
                    came = True
                    self._offsets[lane.name] = message.offset + 1
                    yield message
                else:
                    if not request.follow and lane.at >= lane.end:
                        lanes.remove(lane)
            if request.follow and time.monotonic() - grown_s > GROWTH_S:
                grown_s = time.monotonic()
                lanes += self._begun()
            if not came and wait_s is None:
                pause(pause_s)
            pause_s = FIRST_PAUSE_S if came else min(2 * pause_s, MAX_PAUSE_S)

    def _begun(self) -> list[LaneReading]:
        """Return the lanes that are not known yet, each at its start."""
        request = self._request
        topic = self._sender.send(messaging.get_topic(request.topic), request.timeout_s)
        if request.cursor is not None and request.cursor.created_at != topic.created_at:
            raise ValueError(f"the cursor is of another topic {topic.name}, deleted since")
        lanes = [
            LaneReading(self._sender, self._tables, request, partition, lane)
            for partition in range(topic.partitions)
            if request.partitions is None or partition in request.partitions
            for lane in range(topic.priorities)
        ]
        new = [lane for lane in lanes if lane.name not in self._offsets]
        for lane in new:
            lane.begin(grown=self._topic is not None)
        self._offsets |= {lane.name: lane.at for lane in new}
        self._topic = topic
        return [lane for lane in new if request.follow or lane.at < lane.end]


class LaneReading:
    """One lane of a partition: `begin` first, then page by page."""

    def __init__(
        self,
        sender: Sender,
        tables: LakeTables,
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

    def begin(self, *, grown: bool = False) -> None:
        """Finds out where it begins. Raises HistoryMissing where that cannot be told. `grown`: it
        was not there when the reading began, and is read from its first message on."""
        request = self._request
        since = request.from_time
        call = messaging.offsets_of_partition(
            request.topic, self._partition, since or LONG_AGO, self._lane
        )
        found = self._sender.send(call, request.timeout_s)
        self._first, self.end = found.first, found.end
        asked = None if grown else request.offset_of(self.name)
        if asked is not None:
            self.at = asked
        elif found.first == 0 or (since is not None and found.at > found.first):
            self.at = found.at
        else:
            self.at = self._earliest() if since is None else self._since(since)

    def page(self, wait_seconds: float | None) -> Sequence[ReadMessage]:
        """Return the next messages, of the log or of a table; none if there are none now."""
        if self.at >= self._first:
            messages = self._of_log(wait_seconds)
            if messages or self.at >= self._first:
                return messages
        return self._of_lake()

    def _of_log(self, wait_seconds: float | None) -> Sequence[ReadMessage]:
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
            page = self._sender.send(call, request.timeout_s)
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

    def _of_lake(self) -> Sequence[ReadMessage]:
        """Raises HistoryMissing."""
        end = self._first if self._request.follow else min(self._first, self.end)
        for look in range(1 + LOOKS):
            try:
                for table in self._tables.all(anew=look > 0):
                    found = apart(table.rows, self._partition, self._lane, self.at, end)
                    if found:
                        self.at = found[-1].offset + 1
                        return found
            except OSError:
                if look == LOOKS:
                    raise
                continue
            if look > 0:
                break
        raise self._missing(self.at, end)

    def _missing(self, start: int, end: int) -> HistoryMissing:
        """Return the gap from `start` to the first offset that a table has, or to `end`."""
        for table in self._tables.all():
            found = apart(table.first, self._partition, self._lane, start=start)
            end = end if found is None else min(end, found)
        return HistoryMissing(self._request.topic, self._partition, self._lane, start, end)

    def _earliest(self) -> int:
        """Return the first offset in the log or a table."""
        offsets = [self._first]
        for table in self._tables.all():
            found = apart(table.first, self._partition, self._lane)
            offsets += [] if found is None else [found]
        return min(offsets)

    def _since(self, time: datetime) -> int:
        """Return the first offset of a time that may be before the start of the log.

        The offset is known to be the first where the one before it is present, which was published
        earlier.
        """
        start = self._first
        tables = self._tables.all()
        for table in tables:
            found = apart(table.first, self._partition, self._lane, since=time)
            start = start if found is None else min(start, found)
        if start == 0:
            return 0
        for table in tables:
            if apart(table.rows, self._partition, self._lane, start - 1, start):
                return start
        raise HistoryMissing(self._request.topic, self._partition, self._lane, 0, start)


class LakeTables:
    """The tables that have the history of a topic, as exports show them.

    They are asked for first when the log has not enough; then kept until they are asked for anew.
    """

    def __init__(self, sender: Sender, request: ReadRequest) -> None:
        self._sender = sender
        self._request = request
        self._known: tuple[TableOfTopic, ...] | None = None

    def all(self, *, anew: bool = False) -> tuple[TableOfTopic, ...]:
        """Return the tables of exports that take all messages of the topic.

        With `anew` the tables are read again. Raises LakeNotInstalled.
        """
        if self._known is None or anew:
            self._known = self._found()
        return self._known

    def _found(self) -> tuple[TableOfTopic, ...]:
        topic, timeout_s = self._request.topic, self._request.timeout_s
        pages = every(
            self._sender, lambda token: exports.list_exports(topic, 100, token), timeout_s
        )
        names = [export.name for export in pages if has_all(export)]
        tables = [self._opened(name) for name in names]
        return tuple(table for table in tables if table is not None)

    def _opened(self, name: str) -> TableOfTopic | None:
        """A listing does not say how far lanes are, and so not which topic of that name it is."""
        try:
            export = self._sender.send(exports.get_export(name), self._request.timeout_s)
        except NotFound:
            return None
        states = export.table_state, export.rejects_state
        kept = next((table for table in self._known or () if table.states == states), None)
        if kept is not None:
            return kept
        return apart(open_table, export, self._request.topic, self._request.storage)
