"""The lag of the event loop: a timer compares the time of each call with its due time."""

from __future__ import annotations

import asyncio

EVERY_S = 0.25


class LagProbe:
    """Started and stopped on the loop that it watches."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._longest_s = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + EVERY_S
        self._timer = loop.call_at(self._due_s, self._called)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take(self) -> float:
        """Return the longest lag since the last call, in seconds."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def _called(self) -> None:
        late_s = asyncio.get_running_loop().time() - self._due_s
        self._longest_s = max(self._longest_s, late_s)
        self.start()
