"""Waiting, as the asyncio client does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def pause(seconds: float) -> None:
    """Ends early when the task is cancelled."""
    await asyncio.sleep(seconds)


async def apart(work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do work that blocks, in a thread of its own."""
    return await asyncio.to_thread(work, *args, **more)
