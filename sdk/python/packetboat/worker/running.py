"""That a worker runs once at a time, and is told to stop from anywhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from packetboat.worker.signals import told_of_signals
from packetboat.worker.stopping import Stopping


class Running:
    """One run at a time. `stop` may come from any thread, also before the run has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: tuple[asyncio.AbstractEventLoop, Stopping] | None = None
        self._stops = 0

    async def run(
        self, work: Callable[[Stopping], Awaitable[None]], *, signals: bool | None
    ) -> None:
        """Run the work to its end.

        In the main thread SIGTERM and SIGINT stop it: with `signals` True always, with None where
        the program has no handler for them. Raises RuntimeError while a run is in progress.
        """
        stopping = self._begin()
        try:
            with told_of_signals(stopping.ask, signals):
                await work(stopping)
        finally:
            with self._lock:
                self._now, self._stops = None, 0

    def stop(self) -> None:
        """Tell the run to stop after the work in progress; a second call ends that work, too."""
        with self._lock:
            self._stops += 1
            if self._now is not None:
                loop, stopping = self._now
                loop.call_soon_threadsafe(stopping.ask)

    def _begin(self) -> Stopping:
        stopping = Stopping()
        with self._lock:
            if self._now is not None:
                raise RuntimeError("this worker runs already")
            self._now = (asyncio.get_running_loop(), stopping)
            for _ in range(self._stops):
                stopping.ask()
        return stopping
