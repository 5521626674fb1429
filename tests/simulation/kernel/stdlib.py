"""The standard library's clocks, threads, locks, queues and randomness, of a world.

`installed` replaces them while a world runs. Code that is not within a simulated process sees the
real ones all the while. Executors and `concurrent.futures` are the library's own: they are made of
threads, locks and queues.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # Its own lock is made where it is imported.
import gc
import logging
import os
import queue
import random
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from tests.simulation.kernel.world import SECOND, WAKE_US, Fiber, Process, World

_REAL_LOCK = threading.Lock
_REAL_QUEUE = queue.SimpleQueue
_REAL_THREAD = threading.Thread


class Waiting:
    """Fibers that wait for something, in the order in which they came."""

    __slots__ = ("_fibers", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._fibers: deque[Fiber] = deque()

    def wait(self, timeout_s: float | None) -> None:
        """Wait until woken, or for `timeout_s` seconds."""
        fiber = self._world.current
        assert fiber is not None, "only a simulated thread can wait"
        self._fibers.append(fiber)
        try:
            fiber.park(None if timeout_s is None else int(timeout_s * SECOND), idle=True)
        finally:
            if fiber in self._fibers:
                self._fibers.remove(fiber)

    def wake_one(self) -> None:
        if self._fibers:
            self._fibers.popleft().wake()


class SimLock:
    """`threading.Lock` between the threads of one simulated process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held = False
        self._waiting = Waiting(world)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._held and not blocking:
            return False
        until_us = self._world.now_us + int(timeout * SECOND) if timeout >= 0 else None
        while self._held:
            left_s = None
            if until_us is not None:
                left_s = (until_us - self._world.now_us) / SECOND
                if left_s <= 0:
                    return False
            self._waiting.wait(left_s)
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        self._waiting.wake_one()

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimQueue:
    """`queue.SimpleQueue` between the threads of one simulated process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: deque[Any] = deque()
        self._waiting = Waiting(world)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        self._waiting.wake_one()

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        until_us = None if timeout is None else self._world.now_us + int(timeout * SECOND)
        while not self._items:
            if not block:
                raise queue.Empty
            left_s = None
            if until_us is not None:
                left_s = (until_us - self._world.now_us) / SECOND
                if left_s <= 0:
                    raise queue.Empty
            self._waiting.wait(left_s)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class SimThread:
    """`threading.Thread` of a simulated process."""

    def __init__(
        self,
        process: Process,
        target: Callable[..., object] | None,
        name: str | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None,
        daemon: bool | None,
    ) -> None:
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self.ident: int | None = None
        self._process = process
        self._target = target
        self._arguments = args, dict(kwargs or {})
        self._fiber: Fiber | None = None
        self._joining: list[Waiting] = []
        self._number = process.world.number()

    def __hash__(self) -> int:
        """Return a number that is the same in each run: an executor joins a set of threads."""
        return self._number

    def start(self) -> None:
        self._fiber = Fiber(self._process, self.name, self._run)
        self.ident = id(self)
        self._fiber.start()

    def _run(self) -> None:
        positional, named = self._arguments
        try:
            if self._target is not None:
                self._target(*positional, **named)
        finally:
            if not self._process.dead:
                for waiting in self._joining:
                    waiting.wake_one()

    def join(self, timeout: float | None = None) -> None:
        world = self._process.world
        fiber = world.current
        if fiber is None or fiber.process is not self._process:
            return
        while self.is_alive():
            waiting = Waiting(world)
            self._joining.append(waiting)
            waiting.wait(timeout)
            if timeout is not None:
                return
            # Its last steps, after it woke us.
            fiber.park(1 + world.below(WAKE_US))

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done


@contextmanager
def installed(world: World, seed: int) -> Iterator[None]:
    """Within: whatever runs in a process of the world has its clocks, threads and chance."""
    real_monotonic, real_time = time.monotonic, time.time
    real_monotonic_ns, real_time_ns = time.monotonic_ns, time.time_ns
    real_perf, real_perf_ns = time.perf_counter, time.perf_counter_ns
    real_urandom, real_sleep = os.urandom, time.sleep
    real_ident = threading.get_ident

    def monotonic() -> float:
        fiber = world.current
        return real_monotonic() if fiber is None else fiber.process.monotonic_us() / SECOND

    def monotonic_ns() -> int:
        fiber = world.current
        return real_monotonic_ns() if fiber is None else fiber.process.monotonic_us() * 1000

    def perf_counter() -> float:
        fiber = world.current
        return real_perf() if fiber is None else fiber.process.monotonic_us() / SECOND

    def perf_counter_ns() -> int:
        fiber = world.current
        return real_perf_ns() if fiber is None else fiber.process.monotonic_us() * 1000

    def wall() -> float:
        fiber = world.current
        return real_time() if fiber is None else fiber.process.machine.wall_us() / SECOND

    def wall_ns() -> int:
        fiber = world.current
        return real_time_ns() if fiber is None else fiber.process.machine.wall_us() * 1000

    def sleep(seconds: float) -> None:
        fiber = world.current
        if fiber is None:
            real_sleep(seconds)
        else:
            fiber.park(int(seconds * SECOND))

    chance = random.Random(f"processes {seed}")

    def urandom(count: int) -> bytes:
        return real_urandom(count) if world.current is None else chance.randbytes(count)

    class SeededRandom(random.Random):
        """Without a seed of its own it has the world's."""

        def __init__(self, x: Any = None) -> None:
            if x is None and world.current is not None:
                x = chance.getrandbits(64)
            super().__init__(x)

    def lock() -> Any:
        return _REAL_LOCK() if world.current is None else SimLock(world)

    def simple_queue() -> Any:
        return _REAL_QUEUE() if world.current is None else SimQueue(world)

    class Thread(_REAL_THREAD):
        """A real one outside of simulated processes."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            fiber = world.current
            if fiber is None or cls is not Thread:
                return super().__new__(cls)
            return _thread(fiber.process, *args, **kwargs)

    logger = logging.getLogger("concurrent.futures")
    state = random.getstate()
    with ExitStack() as stack:
        # A process dies between the making of a coroutine and its first step, as real ones do.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        for module, name, value in (
            (time, "monotonic", monotonic),
            (time, "monotonic_ns", monotonic_ns),
            (time, "perf_counter", perf_counter),
            (time, "perf_counter_ns", perf_counter_ns),
            (time, "time", wall),
            (time, "time_ns", wall_ns),
            (time, "sleep", sleep),
            (os, "urandom", urandom),
            (random, "_urandom", urandom),
            (random, "Random", SeededRandom),
            (threading, "Lock", lock),
            (threading, "_allocate_lock", lock),
            (threading, "Thread", Thread),
            (queue, "SimpleQueue", simple_queue),
            (logger, "disabled", True),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        assert threading.get_ident is real_ident
        random.seed(f"module {seed}")
        collecting = gc.isenabled()
        # A collection may come at any time, and runs code of what it collects.
        gc.disable()
        try:
            yield
        finally:
            random.setstate(state)
            # The remains of its processes go now, not in the middle of the next world.
            gc.collect()
            if collecting:
                gc.enable()


def _thread(
    process: Process,
    group: None = None,
    target: Callable[..., object] | None = None,
    name: str | None = None,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    daemon: bool | None = None,
) -> SimThread:
    return SimThread(process, target, name, args, kwargs, daemon)
