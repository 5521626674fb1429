"""SIGTERM and SIGINT, told to the workers of the main thread's event loop."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Taken(NamedTuple):
    """A signal that workers of a loop have taken, and who had it before."""

    loop: asyncio.AbstractEventLoop
    before: Any
    stops: list[Callable[[], None]]

    def tell(self) -> None:
        for stop in list(self.stops):
            stop()


_taken: dict[signal.Signals, _Taken] = {}
"""Only the main thread looks at it, and that runs one loop at a time."""


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
