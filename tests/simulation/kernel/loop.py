"""The event loop of a simulated process: asyncio's own, but for time, threads and sockets.

Callbacks of one loop run in the order in which they were scheduled, as asyncio promises. The world
chooses the cost of a turn, when a timer's turn comes and which process goes next.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tests.simulation.kernel import network
from tests.simulation.kernel.hashes import SimFuture, SimTask
from tests.simulation.kernel.world import SECOND, TURN_US, Killed, Process

_Result = TypeVar("_Result")


class SimLoop(asyncio.BaseEventLoop):
    """Made by `run`, in the fiber that will run it."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process
        self.world = process.world
        fiber = self.world.current
        assert fiber is not None, "a loop belongs to a fiber"
        self.fiber = fiber
        self._signals: dict[int, asyncio.Handle] = {}
        self._tasks: WeakKeyDictionary[asyncio.Task[Any], None] = WeakKeyDictionary()
        """The tasks in the order of their making, which asyncio.all_tasks does not know."""
        process.loops.append(self)

    def time(self) -> float:
        return self.process.monotonic_us() / SECOND

    # -- turns ---------------------------------------------------------------------------------

    def run_forever(self) -> None:
        self._check_closed()
        self._check_running()
        outer = asyncio._get_running_loop()
        self._thread_id = 1
        try:
            self._be_running(self)
            while True:
                self._run_once()
                if self._stopping:
                    break
        finally:
            self._stopping = False
            self._thread_id = None
            self._be_running(outer)

    def _be_running(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.fiber.loop = loop
        asyncio._set_running_loop(loop)

    def _run_once(self) -> None:
        ready = self._ready
        self._move_due()
        if not ready and not self._stopping:
            if self._scheduled:
                due_us = self.process.machine.world_us(self._scheduled[0]._when * SECOND)
                self.fiber.park(max(0, due_us - self.world.now_us), idle=True)
            else:
                self.fiber.park()
            self._move_due()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            handle._run()
            if self.process.dead:
                raise Killed
        self.fiber.park(1 + self.world.below(TURN_US) * self.process.slowness)

    def _move_due(self) -> None:
        scheduled = self._scheduled
        now_s = self.time()
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= now_s):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if handle._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(handle)

    def _write_to_self(self) -> None:
        self.fiber.wake()

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        if self.world.current is not self.fiber:
            self.fiber.wake()
        return handle

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task = SimTask(coro, loop=self, name=name, context=context)
        task.simulated_number = self.world.number()
        self._tasks[task] = None
        return task

    def create_future(self) -> asyncio.Future[Any]:
        future = SimFuture(loop=self)
        future.simulated_number = self.world.number()
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.process.dead:
            super().call_exception_handler(context)

    def cancel_all_tasks(self) -> None:
        """Cancel all tasks as asyncio.run does in the end, in the order in which they were made."""
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def unwind(self) -> None:
        """Close the tasks of a dead process, in the order of their making, so that they let
        go of all.
        """
        for task in list(self._tasks):
            task._log_destroy_pending = False
            coroutine = task.get_coro()
            try:
                coroutine.close()
            except BaseException:  # Nobody sees a dead process on its way out.
                continue
        self._ready.clear()
        self._scheduled.clear()

    # -- signals -------------------------------------------------------------------------------

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        self._signals[sig] = asyncio.Handle(callback, args, self)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signals.pop(sig, None) is not None

    def deliver_signal(self, number: int) -> None:
        handle = self._signals.get(number)
        if handle is None:
            self.process.kill()
        else:
            self.call_soon(handle._run)

    # -- sockets -------------------------------------------------------------------------------

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        assert ssl is None, "TLS is not simulated"
        assert host is not None
        assert port is not None
        return await network.of(self.world).connect(self, protocol_factory, (host, port))

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: Any = None,
        ssl: Any = None,
        **options: Any,
    ) -> network.Listener:
        assert ssl is None, "TLS is not simulated"
        if sock is not None:
            host, port = sock.getsockname()
        return network.of(self.world).listen(self, protocol_factory, (host or "", port or 0))


def run(process: Process, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run as asyncio.run does, in the current fiber of the process."""
    loop = SimLoop(process)
    try:
        return loop.run_until_complete(work)
    finally:
        if not process.dead:
            loop.cancel_all_tasks()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
            process.loops.remove(loop)
