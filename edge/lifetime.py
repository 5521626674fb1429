"""Tasks that live as long as the part of a process that began them.

An unexpected error must not end such a task: its renewals, sweeps or readings would stop until
somebody restarts the process, and nobody would know. So the error is logged and counted, and the
task begins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import structlog
from prometheus_client import Counter

AGAIN_AFTER_S = 1.0
Run = Callable[[], Coroutine[Any, Any, None]]
"""Does the work of a task; it can be called again after it failed."""
_FAILED = Counter(
    "packetboat_background_failures_total",
    "Background tasks that an unexpected error ended, and that began again.",
    ["task"],
)
_log = structlog.get_logger("packetboat.lifetime")


def own(stack: AsyncExitStack, run: Run, name: str = "") -> None:
    """Run a task until the stack is closed; its end is waited for.

    `name` is that of its errors, in the log and in the metric; the default is that of the function.
    """
    task = asyncio.ensure_future(keep_running(run, name or run.__qualname__))

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def keep_running(run: Run, name: str) -> None:
    """Run `run` until it returns; begin it again, after a second, whenever an error ends it."""
    failed = _FAILED.labels(name)  # Prometheus sees a growth only from a number that it knows
    while True:
        try:
            await run()
        except Exception:
            failed.inc()
            _log.exception("background task failed", task=name)
            await asyncio.sleep(AGAIN_AFTER_S)
        else:
            return
