"""SIGTERM and SIGINT, told to a worker."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_of_signals(stop: Callable[[], None]) -> Iterator[None]:
    """On the event loop of the main thread; does nothing in any other."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
    except NotImplementedError:  # No such thing on Windows.
        for number in SIGNALS:
            signal.signal(number, lambda *_: _tell(loop, stop))
    try:
        yield
    finally:
        for number in SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def _tell(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(stop)
