"""Tasks that live as long as a term of leadership: the first that fails ends them all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import structlog

from metadata.errors import LeaseLost, MetadataError
from scheduler import metrics
from store_nodes.errors import StoreError

_log = structlog.get_logger("packetboat.scheduler")


class Term:
    """Made when the lock is taken. `spawn` may be called from callbacks, also after the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self.over:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def wait(self) -> None:
        """Wait until cancelled, or until a task fails; raise the task's error."""
        await self._failed

    def fail(self, error: BaseException) -> None:
        """Ends the term."""
        if not self._failed.done():
            self._failed.set_exception(error)

    async def end(self) -> None:
        """End every task; all are over when this returns."""
        self.over = True
        self._failed.cancel()
        if self._failed.done() and not self._failed.cancelled():
            self._failed.exception()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


async def put_off(part: str, work: Awaitable[None]) -> None:
    """Does it, or notes that it has to wait: Postgres or the store is away. LeaseLost goes up."""
    try:
        await work
    except LeaseLost:
        raise
    except (MetadataError, StoreError) as error:
        metrics.failures.labels(part).inc()
        _log.info("put off", part=part, error=f"{error.code}: {error}")
