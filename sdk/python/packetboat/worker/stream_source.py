"""Messages from one stream after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from packetboat.errors import PacketboatError
from packetboat.models import Message
from packetboat.worker.outage import Backoff, is_passing
from packetboat.worker.sources import Source

FIRST_LIFE_S = 0.2
PATIENCE_S = 0.5
MAX_LIFE_S = 60.0
QUIET_S = 0.1
MAX_STREAM_MESSAGES = 10_000
MAX_STREAM_BYTES = 64 * 1024 * 1024


class StreamSource(Source):
    """A stream's window is what there was room for when it was opened, and can't be changed: the
    first ones are short, so that the window follows what handlers turn out to take.
    """

    on_its_way: bool

    async def run(self) -> None:
        backoff = Backoff()
        life_s = FIRST_LIFE_S
        while not self._stopping.asked:
            room = await self._room()
            if room * 4 < self._hold.target() * 3:
                life_s = FIRST_LIFE_S
            try:
                await self._follow(room, life_s, backoff)
            except PacketboatError as error:
                if not (is_passing(error) or self._wait_if_refused):
                    raise
                self._outage.failed(error)
                await asyncio.sleep(backoff.pause_s(error))
            life_s = min(MAX_LIFE_S, life_s * 2)

    async def _room(self) -> int:
        """Return the whole window, or the free room where handlers take long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                return await self._hold.wait_for_most()
        return await self._hold.wait_for_room()

    async def _follow(self, room: int, life_s: float, backoff: Backoff) -> None:
        most_bytes = max(1, min(MAX_STREAM_BYTES, self._hold.room_bytes()))
        stream = self._calls.stream(min(room, MAX_STREAM_MESSAGES), most_bytes, life_s)
        async with stream as batches:
            self._outage.answered()
            backoff.reset()
            self.on_its_way = True
            try:
                await self._read(batches)
            finally:
                self.on_its_way = False

    async def _read(self, batches: AsyncIterator[list[Message]]) -> None:
        """Take the messages of a stream to its end; once told to stop, until nothing more comes."""
        while True:
            timeout_s = QUIET_S if self._stopping.asked else None
            try:
                async with asyncio.timeout(timeout_s):
                    self._take(await anext(batches))
            except (StopAsyncIteration, TimeoutError):
                return
