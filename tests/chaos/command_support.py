"""The parts that the actors of the command load share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from store_nodes import record_batch
from store_nodes.errors import StoreError

TIMEOUT_S = 2.0
FINISH_S = 120.0
RETRY_S = 0.05

KNOWN = "an id was known when it came again"
KNOWN_ELSEWHERE = "an id was known to another leader than the one it was first sent to"
REPEATED = "a message was sent again and stored only then"
EARLY = "a release came too early and was refused"
AGAIN = "a release came twice and was answered the same offset"
CANCELLED = "a delayed message was cancelled"
MOVED = "a delayed message was rescheduled"
KEPT = "a truncation kept offsets below it"
RACED = "two callers wanted to set a counter and one was refused"
HANDED = "a leader was wished for"
CHECKPOINT = "a checkpoint was asked for"
SEALED = "a queue was sealed while it was appended to"
SITUATIONS = (
    *(KNOWN, KNOWN_ELSEWHERE, REPEATED, EARLY, AGAIN, CANCELLED, MOVED, KEPT, RACED),
    *(HANDED, CHECKPOINT, SEALED),
)

Answer = TypeVar("Answer")


class Actor(Protocol):
    """One caller, on queues of its own."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until told to stop, through all faults."""

    async def check(self) -> list[str]:
        """Return all faults found, in words, when all is calm again."""


async def until_done(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat the call until it is answered; for calls that may be repeated."""
    deadline = time.monotonic() + FINISH_S
    while True:
        try:
            return await call()
        except StoreError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(RETRY_S)


def encoded(*payloads: str) -> bytes:
    """Encode a batch of small messages that begin with these payloads."""
    texts = [f"{payload} {'y' * 100}".encode() for payload in payloads]
    return record_batch.encode([record_batch.Message(text) for text in texts], 0)
