"""Messages that wait for a handler."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from packetboat.worker.held import Held, State


class Ready:
    """The leased messages that wait for a handler, in the order in which they came.

    With `by_key` only one message of a key is worked on at a time. Only leased messages are here,
    so the queue needs no limit of its own. It skips messages that were lost meanwhile.
    """

    def __init__(self, *, by_key: bool) -> None:
        self._by_key = by_key
        self._queue: deque[Held] = deque()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._behind: dict[str, deque[Held]] = {}
        """The waiting messages of each key of which a message is queued or worked on."""
        self._closed = False
        self._keep = False

    def put(self, held: Held) -> None:
        key = held.message.key
        if self._by_key and key is not None:
            behind = self._behind.get(key)
            if behind is not None:
                behind.append(held)
                return
            self._behind[key] = deque()
        self._append(held)

    def done(self, held: Held) -> None:
        """A handler has ended with it, or it was lost: the next of its key may go."""
        key = held.message.key
        if not self._by_key or key is None:
            return
        behind = self._behind[key]
        if behind:
            self._append(behind.popleft())
        else:
            del self._behind[key]

    async def take(self, most: int, wait_s: float) -> list[Held]:
        """Return one message or more; fewer than `most` after the wait, none once it is
        closed and empty.
        """
        taken = [held] if (held := await self._next()) is not None else []
        if taken and most > 1:
            await self._fill(taken, most, wait_s)
        return taken

    def close(self, *, keep: bool = False) -> None:
        """Nothing more is taken, but for what waits already if that is kept."""
        self._closed, self._keep = True, keep
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def clear(self) -> list[Held]:
        """Remove and return the waiting messages."""
        left = [*self._queue, *(held for behind in self._behind.values() for held in behind)]
        self._queue.clear()
        for behind in self._behind.values():
            behind.clear()
        return [held for held in left if held.state is State.QUEUED]

    async def _fill(self, taken: list[Held], most: int, wait_s: float) -> None:
        self._fill_now(taken, most)
        if not wait_s:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while len(taken) < most and (held := await self._next()) is not None:
                    taken.append(held)

    def _fill_now(self, taken: list[Held], most: int) -> None:
        while len(taken) < most and (held := self._pop()) is not None:
            taken.append(held)

    async def _next(self) -> Held | None:
        while (held := self._pop()) is None:
            if self._closed and not (self._keep and any(self._behind.values())):
                return None
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise
        return held

    def _pop(self) -> Held | None:
        if self._closed and not self._keep:
            return None
        while self._queue:
            held = self._queue.popleft()
            if held.state is State.QUEUED:
                return held
            self.done(held)
        return None

    def _append(self, held: Held) -> None:
        self._queue.append(held)
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
