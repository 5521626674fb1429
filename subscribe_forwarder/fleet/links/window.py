"""Back pressure of one body on its way over a link."""

from __future__ import annotations

import asyncio


class Window:
    """Counts the bytes that were sent and that the other side has not passed on yet."""

    __slots__ = ("_closed", "_waker", "unconfirmed_bytes")

    def __init__(self) -> None:
        self.unconfirmed_bytes = 0
        self._waker: asyncio.Future[None] | None = None
        self._closed = False

    def confirmed(self, size_bytes: int) -> None:
        self.unconfirmed_bytes -= size_bytes
        self._wake()

    def close(self) -> None:
        """Stop waiting for confirmations."""
        self._closed = True
        self._wake()

    async def closed(self) -> None:
        while not self._closed:
            await self._changed()

    async def below(self, limit_bytes: int) -> None:
        """Returns when no more than that is unconfirmed, or it was closed. One waits at a time."""
        while self.unconfirmed_bytes > limit_bytes and not self._closed:
            await self._changed()

    async def _changed(self) -> None:
        self._waker = asyncio.get_running_loop().create_future()
        await self._waker

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
