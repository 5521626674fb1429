"""Threads for handlers that are no coroutines.

Not a ThreadPoolExecutor: the interpreter waits for those threads when it ends, and a worker that
is told to stop at once must not wait for a handler that hangs.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

Work = tuple[Callable[..., Any], tuple[Any, ...], "asyncio.Future[Any]"]
_numbers = itertools.count(1)


class Threads:
    """A set of at most `count` threads, started as they are needed. One event loop uses them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._name = f"packetboat-worker-{next(_numbers)}"
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._started = 0
        self._busy = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Cancelling the future does not stop the function."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._busy += 1
        if self._busy > self._started and self._started < self._count:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        # The context goes along: a trace that was begun around the handler goes on in it.
        context = contextvars.copy_context()
        self._queue.put((functools.partial(context.run, function), arguments, future))
        return future

    async def free(self) -> None:
        """Until one of them has nothing to do."""
        while self._busy >= self._count:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def close(self) -> None:
        """Threads end when what they do ends."""
        for _ in range(self._started):
            self._queue.put(None)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            function, arguments, future = work
            value, error = None, None
            try:
                value = function(*arguments)
            except Exception as raised:
                error = raised
            except BaseException as raised:
                # SystemExit and the like would end the worker's loop, not only this handler.
                error = RuntimeError(f"the handler raised {raised!r}")
            with suppress(RuntimeError):  # The loop is closed: nobody waits for it.
                self._loop.call_soon_threadsafe(self._finish, future, value, error)

    def _finish(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._busy -= 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("the handler raised StopIteration"))
        else:
            future.set_exception(error)
