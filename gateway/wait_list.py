"""The callers of this process that wait for tasks, runs or locks, first come first served.

Callers that wait for the same thing share a key. Only the first caller of a key tries: when the
process hears that there may be something, or at the time that its last try named. The next caller
tries as soon as the first has got something. So a notification costs each process one try in vain
at most, however many wait.

A caller that goes away leaves its list, and the thing that it got at that moment is given back.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import structlog
from prometheus_client import Gauge

from edge.problem import Problem
from edge.shares import FairSemaphore, Shares, TooManyWaiting
from metadata.errors import MetadataError
from metadata.notifier import Notifier

LOOK_EVERY_S = 1.0
"""Seconds between two looks at most: a notification can get lost, and time alone makes things
ready.
"""
NEVER_S = float("inf")
K = TypeVar("K", bound=Hashable)
W = TypeVar("W")
T = TypeVar("T")
_log = structlog.get_logger("packetboat.waits")


class Tried(NamedTuple, Generic[T]):
    """The result of a try; without a result, the seconds after which the next try is due."""

    got: T | None
    again_s: float = NEVER_S


@dataclass(slots=True, eq=False)
class _Waiter:
    rank: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class _Line:
    waiters: list[_Waiter] = field(default_factory=list)
    heard: bool = False
    """Whether there may be something that the last try did not see."""
    try_at_s: float = NEVER_S


class WaitList(Generic[K]):
    """The wait lists of one kind of thing in this process; `close` it last."""

    def __init__(self, bound: Shares) -> None:
        self.needed = asyncio.Event()
        """Set when the first caller waits."""
        self.draining = False
        self._bound = bound
        self._lines: dict[K, _Line] = {}
        self._ranks = itertools.count()
        self._owned: set[asyncio.Task[None]] = set()

    def awaited(self) -> list[K]:
        """Return the keys for which callers wait."""
        return list(self._lines)

    def count(self, key: K) -> int:
        """Return the number of callers that wait for a key."""
        return len(self._lines[key].waiters) if key in self._lines else 0

    def wake(self, key: K) -> None:
        """Let the first caller of a key try, since there may be something for it."""
        if key in self._lines:
            line = self._lines[key]
            line.heard = True
            line.waiters[0].wake.set()

    @contextmanager
    def place(self, who: Hashable) -> Iterator[None]:
        """Hold one of the places of all lists, for the block. Raises TooManyWaiting."""
        with self._bound.held_by(who) as refused:
            if refused is not None:
                raise TooManyWaiting
            self.needed.set()
            yield

    async def wait(
        self,
        key: K,
        attempt: Callable[[], Awaitable[Tried[T]]],
        wait_s: float,
        *,
        heard: bool,
        rank: int | None = None,
    ) -> T | None:
        """Return what an attempt got; None if none got anything in time.

        `heard` says whether the first attempt is due at once, if this caller is the first. Callers
        of a key are in the order of their ranks, and without ranks in that of their coming. An
        attempt that has begun when the time is over is waited for. Raises what an attempt raises.
        """
        line = self._lines.setdefault(key, _Line())
        waiter = _Waiter(next(self._ranks) if rank is None else rank)
        bisect.insort(line.waiters, waiter, key=lambda each: each.rank)
        line.heard |= heard and line.waiters[0] is waiter
        over_s = _now_s() + wait_s
        try:
            while True:
                waiter.wake.clear()
                if line.heard and line.waiters[0] is waiter:
                    got = await _try(line, attempt)
                    if got is not None:
                        return got
                now_s = _now_s()
                if self.draining or now_s >= over_s:
                    return None
                due_s = line.try_at_s if line.waiters[0] is waiter else NEVER_S
                woken = await within(waiter.wake, min(over_s, due_s) - now_s)
                line.heard |= not woken and due_s < over_s
        finally:
            line.waiters.remove(waiter)
            if line.waiters:
                line.waiters[0].wake.set()
            else:
                del self._lines[key]

    async def to_its_end(
        self,
        work: Coroutine[Any, Any, T],
        undo: Callable[[Awaitable[T]], Coroutine[Any, Any, None]],
    ) -> T:
        """Return what `work` gives; if its caller goes away, `undo` gets it instead."""
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.spawn(undo(task))
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that `close` waits for."""
        task = asyncio.ensure_future(_quietly(work))
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)

    def drain(self) -> None:
        """Answer every waiting caller now."""
        self.draining = True
        for line in self._lines.values():
            for waiter in line.waiters:
                waiter.wake.set()

    async def close(self) -> None:
        """Wait until everything is given back, after the last caller has gone."""
        self.draining = True
        while self._owned:
            await asyncio.gather(*self._owned, return_exceptions=True)


class Claims(ABC, Generic[K, W, T]):
    """The claims of this process on things that workers lease: first come first served, by key.

    `waiting` is the bound of the claims that wait, and `tries` that of the claims that are tried.
    `gauge` counts the claims that wait.
    """

    def __init__(self, waiting: Shares, tries: FairSemaphore, gauge: Gauge) -> None:
        self.waits: WaitList[K] = WaitList(waiting)
        self._tries = tries
        self._gauge = gauge
        self._notices = 0

    @abstractmethod
    async def take(self, key: K, wanted: W) -> T | None:
        """Claim a thing at once; None or an empty list if there is none. Raises MetadataError."""

    @abstractmethod
    async def give_back(self, key: K, got: T) -> None:
        """Return a claimed thing. Raises MetadataError."""

    async def claim(self, key: K, who: Hashable, wanted: W, wait_s: float) -> T | None:
        """Return a claimed thing; None if there was none in time.

        `who` holds the place and the turn to try. Raises TooManyWaiting, and MetadataError if the
        first try fails.
        """
        notices = self._notices
        if not self.waits.count(key) and (got := await self._try(key, who, wanted)):
            return got
        if wait_s <= 0 or self.waits.draining:
            return None
        with self.waits.place(who), self._gauge.track_inprogress():
            heard = self._notices != notices
            attempt = partial(self._try_again, key, who, wanted)
            return await self.waits.wait(key, attempt, wait_s, heard=heard)

    def undo(self, key: K, got: T | None) -> None:
        """Return a thing that no caller was told of."""
        if got:
            self.waits.spawn(self.give_back(key, got))

    def notice(self, concerned: Callable[[K], bool] = lambda key: True) -> None:
        """Wake the lists whose key is concerned: there may be something for them."""
        self._notices += 1
        for key in self.waits.awaited():
            if concerned(key):
                self.waits.wake(key)

    async def _try_again(self, key: K, who: Hashable, wanted: W) -> Tried[T]:
        try:
            return Tried(await self._try(key, who, wanted))
        except (MetadataError, TooManyWaiting) as error:
            _log.info("a claim is tried again", error=str(error))
            return Tried(None)

    async def _try(self, key: K, who: Hashable, wanted: W) -> T | None:
        async def undo(taking: Awaitable[T | None]) -> None:
            if got := await taking:
                await self.give_back(key, got)

        async with self._tries.permit(who):
            return await self.waits.to_its_end(self.take(key, wanted), undo) or None


def too_many_claim_waits(what: str) -> Problem:
    """Return the Problem of a claim on tasks, or runs, that may not wait."""
    detail = f"Too many wait for {what} in this process."
    return Problem.of("too-many-claim-waits", detail, retry_after_s=1.0)


async def look_after(
    needed: asyncio.Event, notifier: Notifier, look: Callable[[], Awaitable[None]]
) -> None:
    """Once somebody waits, listen to the notifier and look each second, until cancelled."""
    await needed.wait()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(notifier.run())
        tasks.create_task(_look(look))


async def within(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event; return whether it came in time."""
    try:
        async with asyncio.timeout(timeout_s if timeout_s < NEVER_S else None):
            return await event.wait()
    except TimeoutError:
        return False


async def _look(look: Callable[[], Awaitable[None]]) -> None:
    while True:
        # Not all processes look at the same moment.
        await asyncio.sleep(LOOK_EVERY_S * random.uniform(0.75, 1.0))
        try:
            await look()
        except MetadataError as error:
            _log.debug("nothing is known of the things waited for", error=str(error))


async def _try(line: _Line, attempt: Callable[[], Awaitable[Tried[T]]]) -> T | None:
    """Try for the first caller of a line; the next one tries, too, unless there was nothing."""
    line.heard = False
    try:
        got, again_s = await attempt()
    except BaseException:
        line.heard = True
        raise
    line.heard |= got is not None
    line.try_at_s = _now_s() + again_s
    return got


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except MetadataError as error:
        _log.info("a thing given back, or a place, ends with its lease", error=str(error))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
