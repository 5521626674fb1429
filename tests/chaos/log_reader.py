"""A reader of a topic's partitions by offset, at work while faults happen: no read may miss what
was acknowledged before it was sent, or show anything else than what is stored."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from tests.chaos.delivery.caller import Caller
from tests.chaos.history import Read
from tests.chaos.senders import payload_of

PAUSE_S = 0.25
OVERLAP = 20
"""The number of entries read before that are read again."""
MOST = 1000


class LogReader:
    """Reads the end of each partition in turn until it is stopped."""

    def __init__(self, port: int, token: str, topic: str, partitions: int) -> None:
        self.reads: list[Read] = []
        self._caller = Caller(port, token)
        self._topic = topic
        self._known = dict.fromkeys(range(partitions), 0)
        """Partition → how far it was read."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Reading begins, also again after `stop`."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Nothing is under way any more when this returns."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            self._caller.close()

    async def _run(self) -> None:
        for turn in itertools.count():
            await self._read(turn % len(self._known))
            await asyncio.sleep(PAUSE_S)

    async def _read(self, partition: int) -> None:
        first = max(0, self._known[partition] - OVERLAP)
        reply = await self._caller.call(
            "GET",
            f"/topics/{self._topic}/partitions/{partition}/messages"
            f"?offset={first}&max_messages={MOST}",
        )
        if reply.status != 200:
            return
        payloads = [payload_of(each["data"].encode()) for each in reply.body["messages"]]
        offsets = [each["offset"] for each in reply.body["messages"]]
        assert offsets == list(range(first, first + len(offsets))), f"{partition}: {offsets}"
        read = Read(self._topic, partition, reply.sent_s, reply.answered_s, first, payloads)
        read.end = reply.body["end_offset"]
        self.reads.append(read)
        self._known[partition] = first + len(payloads)
