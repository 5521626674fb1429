"""The calls that a worker makes: what it needs of a client, and what tests put in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from packetboat.models import Message, Settled
from packetboat.worker.emit import Emit


class Lease(Protocol):
    """The delivery settings of a subscription that a worker needs."""

    @property
    def delivery(self) -> str: ...
    @property
    def ack_deadline_seconds(self) -> float: ...


class WorkerCalls(Protocol):
    """The calls that a worker makes for one subscription. Each raises what the client raises."""

    async def describe(self) -> Lease: ...
    async def pull(
        self, max_messages: int, max_bytes: int, wait_seconds: float
    ) -> list[Message]: ...
    def stream(
        self, max_messages: int, max_bytes: int, max_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[list[Message]]]:
        """Yield the messages of a stream; those that arrive together form one list.

        Ends when the server ends the stream, or raises.
        """
        ...

    async def ack(self, ids: Sequence[str], publish: Sequence[Emit] = ()) -> Settled: ...
    async def nack(
        self, ids: Sequence[str], delay_s: float | None, reason: str | None
    ) -> Settled: ...
    async def reject(self, ids: Sequence[str], reason: str | None) -> Settled: ...
    async def release(self, ids: Sequence[str]) -> Settled: ...
    async def extend(self, ids: Sequence[str], seconds: float) -> Settled: ...
