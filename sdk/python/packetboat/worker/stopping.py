"""Telling a worker to stop, once or twice."""

from __future__ import annotations

import asyncio


class Stopping:
    """`asked`: finish what has begun. `at_once`: do not even do that. On the worker's loop."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    @property
    def at_once(self) -> bool:
        return self._at_once.is_set()

    def ask(self) -> None:
        """Twice means at once."""
        if self._asked.is_set():
            self._at_once.set()
        self._asked.set()

    def ask_once(self) -> None:
        """Ask to stop; unlike `ask`, a second call does not mean at once."""
        self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()

    async def wait_at_once(self) -> None:
        await self._at_once.wait()
