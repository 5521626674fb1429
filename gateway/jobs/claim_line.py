"""Claims of this process that wait for tasks, first come first served.

Callers that ask for the same kinds of one pool wait in one list. The first of a list tries when it
hears that there may be tasks, and the next as soon as that one has got some. So a notification
costs each process one statement in vain at most, and waiting costs one statement a second, however
many wait.

A caller that goes away leaves its list; the tasks that it got at that moment go back, and no
attempt is counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog

from edge.shares import Shares, TooManyWaiting, Turns
from gateway.jobs import metrics
from metadata.errors import MetadataError
from metadata.jobs.claims import JobLeaseRepository, Wanted
from metadata.jobs.machine import Release
from metadata.jobs.settling import Item
from metadata.jobs.types import LeasedTask

MAX_WAITING = 10_000
"""The number of callers that may wait in one process."""
MAX_TRIES = 4
"""The number of tries at once, half of them for one tenant.

Tries of a pool with a limit wait for each other, on connections that others need.
"""
_log = structlog.get_logger("packetboat.jobs")


class Key(NamedTuple):
    """The common values of the callers in one wait list."""

    tenant_id: bytes
    pool: str
    kinds: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Waiter:
    wanted: Wanted
    got: asyncio.Future[list[LeasedTask]]
    trying: bool = False
    over: bool = False
    """The caller's time is over: it takes the result of its last try."""


@dataclass(slots=True, eq=False)
class _Line:
    waiters: deque[_Waiter] = field(default_factory=deque)
    busy: bool = False
    rung: bool = False
    """Since the present try began."""


class ClaimLine:
    """One per process; `close` it last."""

    def __init__(
        self, leases: JobLeaseRepository, on_wait: Callable[[], None] = lambda: None
    ) -> None:
        self._leases = leases
        self._on_wait = on_wait
        self._lines: dict[Key, _Line] = {}
        self._waiting = Shares(MAX_WAITING, name="claim_waits")
        self._rings = 0
        self._draining = False
        self._owned: set[asyncio.Task[None]] = set()
        self._tries = Turns(Shares(MAX_TRIES), Shares(MAX_WAITING, name="claim_tries"))

    async def claim(self, tenant_id: bytes, wanted: Wanted, wait_s: float) -> list[LeasedTask]:
        """Return the claimed tasks; none if none came in time.

        Raises TooManyWaiting, MetadataError (at once).
        """
        key = Key(tenant_id, wanted.pool, tuple(wanted.kinds))
        rings = self._rings
        if key not in self._lines:
            got = await self._try(tenant_id, wanted)
            if got:
                return got
        if wait_s <= 0 or self._draining:
            return []
        return await self._wait(key, wanted, wait_s, heard=self._rings != rings)

    def undo(self, tenant_id: bytes, tasks: Sequence[LeasedTask]) -> None:
        """Return tasks that no caller was told of."""
        if tasks:
            self._spawn(self._give_back(tenant_id, tasks))

    def rung(self, tenant_id: bytes, pool: str) -> None:
        """There may be tasks in that pool."""
        self._rings += 1
        for key in list(self._lines):
            if key.tenant_id == tenant_id and key.pool == pool:
                self._pump(key)

    def wake_all(self) -> None:
        """Rings may have been missed."""
        self._rings += 1
        for key in list(self._lines):
            self._pump(key)

    async def look(self) -> None:
        """Asks once for all lines. Raises MetadataError."""
        keys = list(self._lines)
        for at in await self._leases.claimable(keys):
            if keys[at] in self._lines:
                self._pump(keys[at])

    def drain(self) -> None:
        """Answer every waiting caller now."""
        self._draining = True
        for line in self._lines.values():
            for waiter in line.waiters:
                if not waiter.trying and not waiter.got.done():
                    waiter.got.set_result([])
                waiter.over = True

    async def close(self) -> None:
        """After the last caller has gone: what is being given back is, if Postgres is there."""
        self._draining = True
        while self._owned:
            await asyncio.gather(*self._owned, return_exceptions=True)

    async def _wait(
        self, key: Key, wanted: Wanted, wait_s: float, *, heard: bool
    ) -> list[LeasedTask]:
        if self._waiting.take(key.tenant_id) is not None:
            raise TooManyWaiting
        metrics.waiting.inc()
        self._on_wait()
        waiter = _Waiter(wanted, asyncio.get_running_loop().create_future())
        line = self._lines.setdefault(key, _Line())
        line.waiters.append(waiter)
        if heard:
            self._pump(key)
        answered = False
        try:
            got = await self._within(waiter, wait_s)
            answered = True
            return got
        finally:
            self._leave(key, line, waiter)
            if not answered and waiter.got.done() and not waiter.got.cancelled():
                self.undo(key.tenant_id, waiter.got.result())

    async def _within(self, waiter: _Waiter, wait_s: float) -> list[LeasedTask]:
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(waiter.got)
        except TimeoutError:
            waiter.over = True
            return await waiter.got if waiter.trying or waiter.got.done() else []

    def _leave(self, key: Key, line: _Line, waiter: _Waiter) -> None:
        line.waiters.remove(waiter)
        self._waiting.release(key.tenant_id)
        metrics.waiting.dec()
        if not line.waiters and self._lines.get(key) is line:
            del self._lines[key]

    def _pump(self, key: Key) -> None:
        line = self._lines[key]
        if line.busy:
            line.rung = True
            return
        line.busy = True
        self._spawn(self._serve(key, line))

    async def _serve(self, key: Key, line: _Line) -> None:
        """Serve the first caller of the list, then the next, until there is nothing."""
        try:
            while waiter := self._first(line):
                line.rung = False
                if not await self._serve_one(key, line, waiter) and not line.rung:
                    return
        finally:
            line.busy = False

    def _first(self, line: _Line) -> _Waiter | None:
        return next((each for each in line.waiters if not each.got.done()), None)

    async def _serve_one(self, key: Key, line: _Line, waiter: _Waiter) -> bool:
        """Return whether the caller got something.

        Raises MetadataError; the caller goes on waiting.
        """
        waiter.trying = True
        got: list[LeasedTask] = []
        try:
            got = await self._try(key.tenant_id, waiter.wanted)
        finally:
            waiter.trying = False
            if waiter not in line.waiters:
                self.undo(key.tenant_id, got)
            elif (got or waiter.over) and not waiter.got.done():
                waiter.got.set_result(got)
        return bool(got)

    async def _try(self, tenant_id: bytes, wanted: Wanted) -> list[LeasedTask]:
        async with self._tries.turn(tenant_id):
            attempt = asyncio.create_task(self._leases.claim(tenant_id, wanted))
            try:
                return await asyncio.shield(attempt)
            except asyncio.CancelledError:
                self._spawn(self._undo_attempt(tenant_id, attempt))
                raise

    async def _undo_attempt(
        self, tenant_id: bytes, attempt: asyncio.Task[list[LeasedTask]]
    ) -> None:
        await self._give_back(tenant_id, await attempt)

    async def _give_back(self, tenant_id: bytes, tasks: Sequence[LeasedTask]) -> None:
        if tasks:
            items = [Item(task.lease, Release()) for task in tasks]
            await self._leases.settle(tenant_id, items)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except MetadataError as error:
        _log.info("a claim is tried again, or its leases end", error=str(error))
