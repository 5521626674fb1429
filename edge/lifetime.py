"""Tasks that live as long as the part of a process that began them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any


def own(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
    """Run a task until the stack is closed; its end is waited for."""
    task = asyncio.ensure_future(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
