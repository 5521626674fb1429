"""The sources of messages: pulls that wait, or a stream."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence

from packetboat.errors import PacketboatError
from packetboat.models import Message
from packetboat.worker.calls import WorkerCalls
from packetboat.worker.held import Hold
from packetboat.worker.outage import Backoff, Outage, is_passing
from packetboat.worker.running import Stopping

WAIT_S = 20.0
MAX_PULL_MESSAGES = 1000
MAX_PULL_BYTES = 8 * 1024 * 1024
Take = Callable[[Sequence[Message]], None]


class Source:
    """`run` ends when the worker is told to stop and nothing is on its way, or with an error that
    will not pass. `on_its_way`: ending it now might leave leased what never came."""

    def __init__(
        self,
        calls: WorkerCalls,
        hold: Hold,
        take: Take,
        outage: Outage,
        stopping: Stopping,
        *,
        wait_if_refused: bool,
    ) -> None:
        self._calls = calls
        self._hold = hold
        self._take = take
        self._outage = outage
        self._stopping = stopping
        self._wait_if_refused = wait_if_refused
        self.on_its_way: bool = False

    @abstractmethod
    async def run(self) -> None: ...


class PullSource(Source):
    """One pull after the other, each for as many as there is room for.

    The default: it never leases more than there is room for at that moment, however long handlers
    take just now, and any proxy lets it through.
    """

    on_its_way: bool

    async def run(self) -> None:
        backoff = Backoff()
        while not self._stopping.asked:
            room = await self._hold.wait_for_room()
            try:
                messages = await self._pull(room)
            except PacketboatError as error:
                if not (is_passing(error) or self._wait_if_refused):
                    raise
                self._outage.failed(error)
                await asyncio.sleep(backoff.pause_s(error))
                continue
            self._outage.answered()
            backoff.reset()
            self._take(messages)

    async def _pull(self, room: int) -> list[Message]:
        self.on_its_way = True
        try:
            most_bytes = max(1, min(MAX_PULL_BYTES, self._hold.room_bytes()))
            return await self._calls.pull(min(room, MAX_PULL_MESSAGES), most_bytes, WAIT_S)
        finally:
            self.on_its_way = False
