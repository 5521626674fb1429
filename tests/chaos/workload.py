"""Publishers that never retry and remember everything they were told."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable

from tests.chaos.history import Outcome, Publish
from tests.chaos.senders import Sender

KEY_PAUSE_S = 0.05
FAILED_PAUSE_S = 0.05


class Workload:
    """An open loop of unkeyed messages at a rate, and publishers each with a key of its own that
    send their next message once the last is answered."""

    def __init__(
        self, sender: Sender, topic: str, *, per_second: float = 500.0, keys: int = 8
    ) -> None:
        """Make the workload; `topic`: its name in the history."""
        self.topic = topic
        self.history: list[Publish] = []
        self._sender = sender
        self._per_second = per_second
        self._keys = keys
        self._numbers = itertools.count()
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._cancelled = False

    def start(self) -> None:
        """Publishing begins, also again after `stop`."""
        self._stopping.clear()
        self._own(asyncio.create_task(self._open_loop()))
        for number in range(self._keys):
            self._own(asyncio.create_task(self._keyed(f"key-{number}")))

    async def stop(self) -> None:
        """Nothing more is sent; returns when everything sent is answered or given up."""
        self._stopping.set()
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=self._cancelled)

    def cancel(self) -> None:
        """Give up what is out; `stop` then returns at once."""
        self._cancelled = True
        self._stopping.set()
        for task in self._running:
            task.cancel()

    async def publish_one(self, key: str | None = None) -> Publish:
        """Publish one message that must be accepted; it is in the history too."""
        publish = await self.publish(key)
        assert publish.outcome is Outcome.ACKED, publish
        return publish

    async def answered(self, publishes: Iterable[Publish]) -> None:
        """Returns when each of these has its answer, or was given up."""
        for publish in publishes:
            while not publish.answered_s:
                await asyncio.sleep(0.01)

    def between(self, start_s: float, end_s: float) -> list[Publish]:
        """Return the messages sent in this span of the monotonic clock."""
        first = len(self.history)
        while first and self.history[first - 1].sent_s >= start_s:
            first -= 1
        return [publish for publish in self.history[first:] if publish.sent_s < end_s]

    def _own(self, task: asyncio.Task[None]) -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _open_loop(self) -> None:
        start = time.monotonic()
        for index in itertools.count():
            await asyncio.sleep(max(0.0, start + index / self._per_second - time.monotonic()))
            if self._stopping.is_set():
                return
            self._own(asyncio.create_task(self._unkeyed()))

    async def _unkeyed(self) -> None:
        await self.publish(None)

    async def _keyed(self, key: str) -> None:
        while not self._stopping.is_set():
            publish = await self.publish(key)
            done = publish.outcome is Outcome.ACKED
            await asyncio.sleep(KEY_PAUSE_S if done else FAILED_PAUSE_S)

    async def publish(self, key: str | None = None) -> Publish:
        """Publish one message, whatever its outcome; it is in the history."""
        payload = f"{next(self._numbers)}"
        publish = Publish(payload, key, time.monotonic(), topic=self.topic)
        self.history.append(publish)
        await self._sender.send(publish)
        publish.answered_s = time.monotonic()
        return publish


def failed(publishes: Iterable[Publish]) -> list[Publish]:
    """Return the publishes without a 201."""
    return [publish for publish in publishes if publish.outcome is not Outcome.ACKED]


def resume_gap_s(publishes: Iterable[Publish], start_s: float, end_s: float) -> float:
    """Return the longest wait of any key in this span from one receipt to the next.

    A key still waiting at the end counts until then.
    """
    last: dict[str, float] = {}
    longest = 0.0
    keyed = [publish for publish in publishes if publish.key is not None]
    acked = [publish for publish in keyed if publish.outcome is Outcome.ACKED]
    for publish in sorted(acked, key=lambda publish: publish.answered_s):
        assert publish.key is not None
        before = last.get(publish.key)
        if before is not None and start_s <= publish.answered_s and before <= end_s:
            longest = max(longest, publish.answered_s - before)
        last[publish.key] = publish.answered_s
    for key in {publish.key for publish in keyed if publish.key is not None}:
        longest = max(longest, end_s - last.get(key, start_s))
    return longest
