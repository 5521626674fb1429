"""The CPU time that the callbacks of some code take of the loop's thread.

The promise is in docs/GUARANTEES.md: no input of a tenant, or of a caller without a token, takes
more than `MAX_CALLBACK_MS` in one callback. It is measured by the thread's CPU time and not by the
wall clock, so other programs on the machine change nothing.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from unittest import mock

MAX_CALLBACK_MS = 50.0
T = TypeVar("T")


class Callbacks:
    """The measurement of a block, once the block has ended."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        """CPU time of the thread in the callback that took most."""
        self.longest = ""
        """Callback that took most, as asyncio shows it."""
        self.process_ms = 0.0
        """CPU time of all threads of this process, since a thread that computes holds the GIL.

        Other processes are not counted.
        """

    def note(self, handle: asyncio.Handle, took_ms: float) -> None:
        if took_ms > self.longest_ms:
            self.longest_ms, self.longest = took_ms, repr(handle)


def timed(
    run: Callable[[asyncio.Handle], None], note: Callable[[asyncio.Handle, float], None]
) -> Callable[[asyncio.Handle], None]:
    """Return an `asyncio.Handle._run` that reports the CPU milliseconds of each callback."""

    def timed_run(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        try:
            run(handle)
        finally:
            note(handle, (time.thread_time() - began_s) * 1000)

    return timed_run


@asynccontextmanager
async def measured() -> AsyncIterator[Callbacks]:
    """Measures each callback of asyncio's own loop while the block runs, its own code included."""
    callbacks = Callbacks()
    gc.collect()
    # A collection need not look through objects of other tests. They stay set aside: those that
    # tests/conftest.py set aside before are a million, and would be looked at ever after.
    gc.freeze()
    with mock.patch.object(asyncio.Handle, "_run", timed(asyncio.Handle._run, callbacks.note)):
        await asyncio.sleep(0)  # The block runs in a callback that is measured.
        began_s = time.process_time()
        try:
            yield callbacks
        finally:
            callbacks.process_ms = (time.process_time() - began_s) * 1000
            await asyncio.sleep(0)


def cpu_ms(work: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU milliseconds of this thread that a call takes, and its result."""
    began_s = time.thread_time()
    result = work()
    return (time.thread_time() - began_s) * 1000, result
