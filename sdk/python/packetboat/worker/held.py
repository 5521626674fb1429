"""Messages that this worker has leased, and how many more it should ask for."""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Callable, Iterator

from packetboat.models import Message
from packetboat.worker.pace import Latency
from packetboat.worker.settings import WorkerSettings

MAX_PREFETCH = 1000
PREFETCH_S = 0.1
"""Seconds for which the prefetched messages keep the handlers busy: some round trips to the
server.
"""
SLOW_S = 1.0
"""Seconds of a handler above which messages wait at the server, where other workers can
lease them.
"""


class State(enum.Enum):
    """QUEUED → RUNNING → SETTLING → DONE; straight to SETTLING what no handler began with."""

    QUEUED = "queued"
    RUNNING = "running"
    SETTLING = "settling"
    DONE = "done"


class Held:
    """One leased message. Times are of the loop's clock; `lease_end_s` is a little early."""

    __slots__ = (
        "ack_id",
        "lease_end_s",
        "let_go",
        "lost",
        "message",
        "scope",
        "size_bytes",
        "state",
        "taken_s",
    )

    def __init__(self, message: Message, lease_s: float, now_s: float) -> None:
        self.size_bytes: int = len(message.data_base64 or bytes(message.data))
        self.taken_s: float = now_s
        self.renew(message, lease_s, now_s)
        self.state: State = State.QUEUED
        self.lost: bool = False
        self.let_go: bool = False
        """True if the message returns to the server: its next delivery has to be handled,
        and is no repeat.
        """
        self.scope: asyncio.Timeout | None = None
        """Ends the handler that runs, where it can be ended."""

    def renew(self, message: Message, lease_s: float, now_s: float) -> None:
        """Continue with the lease of a new delivery to us of the message that we hold."""
        self.message: Message = message
        self.ack_id: str = message.ack_id or ""
        """Empty where the message was acked before it came, and is ours for good."""
        self.lease_end_s: float = now_s + lease_s if self.ack_id else math.inf


class Hold:
    """All that is leased and not settled, by message id; bounded by what `room` says."""

    def __init__(self, settings: WorkerSettings, latency: Latency) -> None:
        self._settings = settings
        self._latency = latency
        self._held: dict[str, Held] = {}
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._enough: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def find(self, message_id: str) -> Held | None:
        return self._held.get(message_id)

    def add(self, held: Held) -> None:
        """Takes the place of one with the same id, whose lease was lost."""
        before = self._held.get(held.message.message_id)
        if before is not None:
            self._bytes -= before.size_bytes
        self._held[held.message.message_id] = held
        self._bytes += held.size_bytes

    def discard(self, held: Held) -> None:
        """Drop a message that is settled, or belongs to another worker now."""
        held.state = State.DONE
        if self._held.get(held.message.message_id) is held:
            del self._held[held.message.message_id]
            self._bytes -= held.size_bytes
        self._wake()

    def prefetch(self) -> int:
        """Return the number of messages to hold beside those that handlers work on."""
        settings, mean_s = self._settings, self._latency.mean_s
        if settings.prefetch is not None:
            return settings.prefetch
        if mean_s is None:
            return 0
        per_second = settings.slots / max(mean_s, 1e-6)
        if settings.messages_per_second is not None:
            per_second = min(per_second, settings.messages_per_second)
        least = 1 if mean_s < SLOW_S else 0
        return max(least, min(MAX_PREFETCH, int(per_second * PREFETCH_S)))

    def target(self) -> int:
        return self._settings.slots + self.prefetch()

    def room(self) -> int:
        """Return the number of messages that may still be leased."""
        return 0 if self.room_bytes() <= 0 else max(0, self.target() - len(self._held))

    def room_bytes(self) -> int:
        return self._settings.max_bytes - self._bytes

    async def wait_for_room(self) -> int:
        """Return the number of messages to ask for, once half of the prefetch is used up.

        Pulls are few and large; one half is in transit while the acks of the other are.
        """
        await self._wait_for(lambda: max(1, self.prefetch() // 2))
        return min(self.room(), self._settings.slots + (self.prefetch() + 1) // 2)

    async def wait_for_most(self) -> int:
        """Return the free room once most of the held messages are settled."""
        await self._wait_for(lambda: max(1, self.target() * 3 // 4))
        return self.room()

    async def _wait_for(self, least: Callable[[], int]) -> None:
        self._enough = lambda: self.room() >= least()
        while not self._enough():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done() and self._enough():
            waiter.set_result(None)
