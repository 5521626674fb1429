"""Worker processes for calls whose cost a tenant chooses, and which is not known before they are
done.

Many such calls into libraries hold the GIL for as long as they take: on the event loop, and in a
thread as well, everybody would wait for them. A worker process can be ended instead. The rules:

- one call takes at most `LIMIT_S` of CPU time; then the kernel ends the worker (`edge/worker.py`),
  the caller gets `TookTooLong`, and the next call has a new worker;
- a tenant has one worker at a time; its calls wait in line, `MAX_WAITING` at most, and tenants take
  turns;
- a tenant may use `CPU_PART` of the CPU time of a worker in the long run, and `CPU_BURST_S` at
  once. All CPU time is counted, with any outcome; a tenant that has used more is answered 429.

Workers start with the first call and end when they were not used for `IDLE_S`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from edge import worker
from edge.problem import Problem
from edge.shares import FairSemaphore, Shares, TooManyWaiting

WORKERS = 2
"""Workers of a server process, for all tenants."""
LIMIT_S = 2.0
WALL_S = 60.0
"""Seconds that a call may take on a machine that is overloaded."""
MAX_WAITING = 16
"""Waiting calls of one tenant; those of all tenants are limited by `ALL_WAITING`."""
ALL_WAITING = 256
CPU_PART = 0.25
CPU_BURST_S = 10.0
MAX_CALLS = 10_000
"""Calls that a worker makes before it is replaced, since libraries may keep memory."""
IDLE_S = 60.0
MAX_ACCOUNTS = 1_000
_log = structlog.get_logger("packetboat.work")
_reply = msgspec.msgpack.Decoder(worker.Reply)


class TookTooLong(Exception):
    """The call used all its CPU time, or more memory than a worker has."""


class CallFailed(Exception):
    """The function raised an exception that it does not declare; the text names it."""


class _Account:
    """The CPU time of workers that a tenant has left."""

    __slots__ = ("_at_s", "_left_s")

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._left_s = CPU_BURST_S

    def left_s(self, now_s: float) -> float:
        self._left_s = min(CPU_BURST_S, self._left_s + (now_s - self._at_s) * CPU_PART)
        self._at_s = now_s
        return self._left_s

    def used(self, cpu_s: float) -> None:
        self._left_s -= cpu_s


class _Worker:
    def __init__(self, process: Process) -> None:
        self._process = process
        self.calls = 0

    @classmethod
    async def start(cls) -> _Worker:
        return cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-X", "utf8", "-m", worker.__name__),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,
            )
        )

    async def call(self, call: worker.Call) -> worker.Reply:
        """Make a call. Raises TookTooLong; then the worker is dead, or must be killed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self.calls += 1
        try:
            async with asyncio.timeout(WALL_S):
                stdin.write(worker.framed(call))
                await stdin.drain()
                length = await stdout.readexactly(worker.LENGTH_BYTES)
                return _reply.decode(await stdout.readexactly(int.from_bytes(length, "big")))
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            raise TookTooLong from error

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._process._transport.close()  # type: ignore[attr-defined]


class ProcessPool:
    """The worker processes of a server process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._permits = FairSemaphore(
            Shares(WORKERS, 1 / WORKERS), Shares(ALL_WAITING, MAX_WAITING / ALL_WAITING)
        )
        self._idle: list[_Worker] = []
        self._accounts: dict[bytes, _Account] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dismissal: asyncio.TimerHandle | None = None

    async def run(self, tenant_id: bytes, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function, as MessagePack decodes it.

        It must be a function of a module, and its arguments must be of MessagePack too. A caller
        that is cancelled pays for the call nevertheless.

        Raises a 429 Problem, the Problem that the function raises, TookTooLong and CallFailed.
        """
        account = self._account(tenant_id)
        left_s = account.left_s(self._clock())
        if left_s <= 0:
            raise _too_much(1.0 - left_s / CPU_PART)
        call = worker.Call(LIMIT_S, function.__module__, function.__name__, list(arguments))
        task = asyncio.create_task(self._do(tenant_id, account, call))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._dismiss()

    def _account(self, tenant_id: bytes) -> _Account:
        account = self._accounts.get(tenant_id)
        if account is None:
            now_s = self._clock()
            if len(self._accounts) >= MAX_ACCOUNTS:
                self._accounts = {
                    key: each
                    for key, each in self._accounts.items()
                    if each.left_s(now_s) < CPU_BURST_S
                }
            account = self._accounts[tenant_id] = _Account(now_s)
        return account

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # No caller may be left to take the exception.

    async def _do(self, tenant_id: bytes, account: _Account, call: worker.Call) -> Any:
        try:
            async with self._permits.permit(tenant_id):
                reply = await self._called(account, call)
        except TooManyWaiting as error:
            raise _too_much(1.0) from error
        if reply.problem is not None:
            raise reply.problem.problem()
        if reply.failure is None:
            return reply.result
        if reply.failure.startswith("MemoryError"):
            raise TookTooLong
        raise CallFailed(f"{call.module}.{call.function}: {reply.failure}")

    async def _called(self, account: _Account, call: worker.Call) -> worker.Reply:
        used_s = LIMIT_S
        one = self._idle.pop() if self._idle else await _Worker.start()
        try:
            reply = await one.call(call)
            used_s = reply.cpu_s
        except BaseException as error:
            await one.end()
            if isinstance(error, TookTooLong):
                _log.warning("a worker was ended", function=call.function)
            raise
        finally:
            account.used(used_s)
        if one.calls >= MAX_CALLS:
            await one.end()
        else:
            self._idle.append(one)
            self._dismiss_later()
        return reply

    def _dismiss_later(self) -> None:
        if self._dismissal is not None:
            self._dismissal.cancel()

        def dismiss() -> None:
            task = asyncio.create_task(self._dismiss())
            self._tasks.add(task)
            task.add_done_callback(self._done)

        self._dismissal = asyncio.get_running_loop().call_later(IDLE_S, dismiss)

    async def _dismiss(self) -> None:
        if self._dismissal is not None:
            self._dismissal.cancel()
        while self._idle:
            await self._idle.pop().end()


def _too_much(retry_after_s: float) -> Problem:
    return Problem.of(
        "work-limited",
        "The large bodies, schemas and expressions of this tenant take more than its share. "
        "Nothing was done; retry after Retry-After seconds.",
        retry_after_s=retry_after_s,
    )
