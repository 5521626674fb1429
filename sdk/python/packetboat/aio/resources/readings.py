"""A topic's history, from the lake and the log, message by message."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from packetboat.aio.resources.lake_tables import AsyncLakeTables
from packetboat.aio.resources.lane_readings import AsyncLaneReading
from packetboat.aio.sender import AsyncSender
from packetboat.aio.waiting import pause
from packetboat.calls import messaging
from packetboat.calls.call import long_poll_s
from packetboat.lake.cursor import ReadCursor
from packetboat.lake.read_message import ReadMessage
from packetboat.lake.request import ReadRequest
from packetboat.models import Topic

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0
LONG_POLL_S = 20.0
"""Seconds of a long poll where there is one lane; several lanes are asked in turn."""
GROWTH_S = 30.0
"""Seconds between two looks for new partitions of the topic."""


class AsyncReading:
    """Made by `client.read`; iterate over it, once. Pages of the partitions take turns; those of
    one come in the order of offsets."""

    def __init__(self, sender: AsyncSender, request: ReadRequest) -> None:
        self._sender = sender
        self._request = request
        self._tables = AsyncLakeTables(sender, request)
        self._topic: Topic | None = None
        self._offsets: dict[str, int] = {}
        self._messages = self._read()

    def __aiter__(self) -> AsyncReading:
        return self

    async def __anext__(self) -> ReadMessage:
        return await self._messages.__anext__()

    @property
    def cursor(self) -> ReadCursor:
        """Behind the message that came last: `client.read(topic, cursor=…)` goes on there. Raises
        RuntimeError while it is not known where all partitions begin, which the first message
        waits for."""
        if self._topic is None:
            raise RuntimeError("a reading has a cursor once its first message came")
        return ReadCursor(self._topic.name, self._topic.created_at, dict(self._offsets))

    async def _read(self) -> AsyncGenerator[ReadMessage, None]:
        request = self._request
        lanes = await self._begun()
        pause_s, grown_s = FIRST_PAUSE_S, time.monotonic()
        while lanes:
            came = False
            polled = request.follow and len(lanes) == 1
            wait_s = long_poll_s(LONG_POLL_S, request.timeout_s) if polled else None
            for lane in tuple(lanes):
                for message in await lane.page(wait_s):
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
                lanes += await self._begun()
            if not came and wait_s is None:
                await pause(pause_s)
            pause_s = FIRST_PAUSE_S if came else min(2 * pause_s, MAX_PAUSE_S)

    async def _begun(self) -> list[AsyncLaneReading]:
        """Return the lanes that are not known yet, each at its start."""
        request = self._request
        topic = await self._sender.send(messaging.get_topic(request.topic), request.timeout_s)
        if request.cursor is not None and request.cursor.created_at != topic.created_at:
            raise ValueError(f"the cursor is of another topic {topic.name}, deleted since")
        lanes = [
            AsyncLaneReading(self._sender, self._tables, request, partition, lane)
            for partition in range(topic.partitions)
            if request.partitions is None or partition in request.partitions
            for lane in range(topic.priorities)
        ]
        new = [lane for lane in lanes if lane.name not in self._offsets]
        for lane in new:
            await lane.begin(grown=self._topic is not None)
        self._offsets |= {lane.name: lane.at for lane in new}
        self._topic = topic
        return [lane for lane in new if request.follow or lane.at < lane.end]
