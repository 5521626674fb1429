"""Waiting, as the asyncio client does it."""

from __future__ import annotations

import asyncio


async def pause(seconds: float) -> None:
    """Ends early when the task is cancelled."""
    await asyncio.sleep(seconds)
