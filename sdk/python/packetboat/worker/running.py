"""A worker runs once at a time; a call from anywhere, or a signal, tells it to stop."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

_taken: dict[signal.Signals, _Taken] = {}
"""Only the main thread looks at it, and that runs one loop at a time."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Taken(NamedTuple):
    """A signal that workers of a loop have taken, and who had it before."""

    loop: asyncio.AbstractEventLoop
    before: Any
    stops: list[Callable[[], None]]

    def tell(self) -> None:
        for stop in list(self.stops):
            stop()


@contextmanager
def told_of_signals(stop: Callable[[], None], wanted: bool | None) -> Iterator[None]:
    """Calls `stop` on the event loop of the main thread; does nothing in any other thread.

    `wanted` None takes only signals for which the program has no handler of its own: a web server
    that runs a worker beside it keeps its own way to stop. Several workers of a loop are all told.
    """
    if wanted is False or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = [each for each in SIGNALS if wanted or _ours(each, loop) or _is_free(each)]
    for number in numbers:
        _take(number, loop).stops.append(stop)
    try:
        yield
    finally:
        for number in numbers:
            _give_back(number, stop)


def _ours(number: signal.Signals, loop: asyncio.AbstractEventLoop) -> bool:
    return number in _taken and _taken[number].loop is loop


def _is_free(number: signal.Signals) -> bool:
    """Return whether the program has set no handler for the signal.

    `asyncio.run` handles SIGINT by cancelling its main task: a program without a handler of its own
    has that one, too.
    """
    handler: Any = signal.getsignal(number)
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    return isinstance(handler, functools.partial) and isinstance(
        getattr(handler.func, "__self__", None), asyncio.Runner
    )


def _take(number: signal.Signals, loop: asyncio.AbstractEventLoop) -> _Taken:
    if _ours(number, loop):
        return _taken[number]
    taken = _taken[number] = _Taken(loop, signal.getsignal(number), [])
    try:
        loop.add_signal_handler(number, taken.tell)
    except NotImplementedError:  # Windows has none of these; a plain handler wakes the loop.
        signal.signal(number, lambda *_: _wake(taken))
    return taken


def _give_back(number: signal.Signals, stop: Callable[[], None]) -> None:
    taken = _taken[number]
    taken.stops.remove(stop)
    if taken.stops:
        return
    del _taken[number]
    with suppress(NotImplementedError):
        taken.loop.remove_signal_handler(number)
    signal.signal(number, taken.before)


def _wake(taken: _Taken) -> None:
    taken.loop.call_soon_threadsafe(taken.tell)


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
