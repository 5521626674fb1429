"""The callers of this process that wait for locks, first come first served.

Postgres has a list for each lock, which orders the waiters of all processes; here only the first
waiter for each lock tries, when it hears that the lock may be free, or when the present lease may
be over. So a release costs each process that waits one statement, and waiting costs one statement a
second, however many wait.

A caller that is cancelled leaves the list, and releases the lock if it got it at that moment.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from edge.shares import Shares, TooManyWaiting
from metadata.database import Database
from metadata.errors import MetadataError, MetadataUnavailable, OutcomeUnknown
from metadata.locks.bell import LockBell
from metadata.locks.locks import Claim, Held, Lock, LockRepository
from metadata.locks.waiters import LAST_TICKET, RENEW_EVERY_S, LockWaiterRepository, Place

MAX_WAITING = 1000
"""The number of callers that may wait for one lock, in one process."""
MAX_WAITING_IN_ALL = 10_000
"""The number of callers that may wait for all locks in one process, half of it for one tenant."""
TRY_MOST_S = 10.0
"""The longest without a try: a ring that was lost costs no more."""
TRY_MOST_DEAF_S = 1.0
TRY_LEAST_S = 0.05
AFTER_FAILURE_S = 0.5
_LATE_S = 0.002
_log = structlog.get_logger("packetboat.locks")


@dataclass(slots=True, eq=False)
class _Waiter:
    place: Place
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    trying: bool = False
    lost: bool = False
    """The waiter has lost its row in Postgres: it joins anew before it tries."""


class LockLine:
    """One per process; `run` it, and `close` it last."""

    def __init__(self, database: Database, *, locks: LockRepository | None = None) -> None:
        self._locks = locks or LockRepository(database)
        self._places = LockWaiterRepository(database)
        self._bell = LockBell(database, self._rung, self._wake_all)
        self._lines: dict[tuple[bytes, str], list[_Waiter]] = {}
        self._waiting = Shares(MAX_WAITING_IN_ALL, name="lock_waits")
        self._needed = asyncio.Event()
        self._draining = False
        self._owned: set[asyncio.Task[None]] = set()

    async def acquire(self, claim: Claim, wait_s: float, *, repeatable: bool) -> Lock | Held:
        """Return the lock, or its holder when `wait_s` are over. Raises TooManyWaiting,
        TooManyLocks.

        OutcomeUnknown: the caller may repeat the request with the same request id, and gets the
        lock if it was granted. If it cannot repeat it (nobody knows the id), the lock is released
        as soon as that is possible.
        """
        deadline_s = _now_s() + wait_s
        try:
            got = await self._try(claim, LAST_TICKET, repeatable)
            if isinstance(got, Lock) or wait_s <= 0 or self._draining:
                return got
            return await self._wait(claim, deadline_s, got, repeatable)
        except OutcomeUnknown:
            if not repeatable:
                self._spawn(self._give_back_unknown(claim))
            raise

    def undo(self, lock: Lock) -> None:
        """Release a lock that no caller was told of, unless it was acquired again since."""
        self._spawn(self._give_back(lambda: self._locks.undo(lock), lock.ttl_s))

    def drain(self) -> None:
        """Answer every waiting caller now."""
        self._draining = True
        self._wake_all(self._all())

    async def run(self) -> None:
        """Listen, and keep the waiters' rows in Postgres, until cancelled; do nothing until
        somebody waits.
        """
        await self._needed.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bell.run())
            tasks.create_task(self._keep_places())

    async def close(self) -> None:
        """After the last caller has gone: what is being given back is, if Postgres is there."""
        self._draining = True
        while self._owned:
            await asyncio.gather(*self._owned, return_exceptions=True)

    async def _wait(
        self, claim: Claim, deadline_s: float, held: Held, repeatable: bool
    ) -> Lock | Held:
        waiter = await self._join(claim)
        got: Lock | Held = held
        try:
            while True:
                waiter.wake.clear()
                failure: MetadataError | None = None
                try:
                    got = await self._turn(claim, waiter, got, repeatable)
                except (MetadataUnavailable, OutcomeUnknown) as error:
                    failure = error
                left_s = deadline_s - _now_s()
                if isinstance(got, Lock):
                    return got
                if left_s <= 0 or self._draining:
                    if failure is not None:
                        raise failure
                    return got
                await _within(waiter.wake, min(left_s, self._pause_s(waiter, got, failure)))
        finally:
            self._leave(waiter, has_lock=isinstance(got, Lock))

    async def _turn(
        self, claim: Claim, waiter: _Waiter, held: Lock | Held, repeatable: bool
    ) -> Lock | Held:
        """Try to take the lock if the waiter is the first here."""
        if waiter.lost:
            await self._places.join(*waiter.place)
            waiter.lost = False
        if not self._is_first(waiter):
            return held
        waiter.trying = True
        try:
            return await self._try(claim, waiter.place.ticket, repeatable)
        finally:
            waiter.trying = False

    def _pause_s(self, waiter: _Waiter, got: Lock | Held, failure: MetadataError | None) -> float:
        if failure is not None:
            return AFTER_FAILURE_S
        if not self._is_first(waiter) or not isinstance(got, Held):
            return float("inf")
        most_s = TRY_MOST_S if self._bell.listening else TRY_MOST_DEAF_S
        return min(max(got.free_in_s + _LATE_S, TRY_LEAST_S), most_s)

    async def _try(self, claim: Claim, ticket: int, repeatable: bool) -> Lock | Held:
        attempt = asyncio.create_task(self._locks.acquire(claim, ticket))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            self._spawn(self._undo_attempt(attempt, claim, repeatable))
            raise

    async def _undo_attempt(
        self, attempt: asyncio.Task[Lock | Held], claim: Claim, repeatable: bool
    ) -> None:
        try:
            got = await attempt
        except OutcomeUnknown:
            if not repeatable:
                await self._give_back_unknown(claim)
            return
        if isinstance(got, Lock):
            await self._give_back(lambda: self._locks.undo(got), got.ttl_s)

    async def _give_back_unknown(self, claim: Claim) -> None:
        key = claim.tenant_id, claim.name, claim.owner
        await self._give_back(lambda: self._locks.release_holding(*key), claim.ttl_s)

    async def _give_back(self, release: Callable[[], Awaitable[None]], ttl_s: float) -> None:
        """Until it is done, or has ended by itself."""
        over_s = _now_s() + ttl_s
        while True:
            try:
                return await release()
            except MetadataError:
                if self._draining or _now_s() >= over_s:
                    raise
            await asyncio.sleep(AFTER_FAILURE_S)

    # The line of each lock here.

    async def _join(self, claim: Claim) -> _Waiter:
        key = (claim.tenant_id, claim.name)
        if len(self._lines.get(key, ())) >= MAX_WAITING:
            raise TooManyWaiting
        if self._waiting.take(claim.tenant_id) is not None:
            raise TooManyWaiting
        self._needed.set()
        try:
            waiter = _Waiter(await self._places.join(*key))
        except BaseException:
            self._waiting.release(claim.tenant_id)
            raise
        bisect.insort(self._lines.setdefault(key, []), waiter, key=lambda each: each.place.ticket)
        return waiter

    def _leave(self, waiter: _Waiter, *, has_lock: bool) -> None:
        key = waiter.place[:2]
        line = self._lines[key]
        line.remove(waiter)
        self._waiting.release(waiter.place.tenant_id)
        if line:
            line[0].wake.set()
        else:
            del self._lines[key]
        if not has_lock:
            self._spawn(self._places.leave(waiter.place))

    def _is_first(self, waiter: _Waiter) -> bool:
        return self._lines[waiter.place[:2]][0] is waiter

    def _rung(self, tenant_id: bytes, name: str) -> None:
        for waiter in self._lines.get((tenant_id, name), ())[:1]:
            waiter.wake.set()

    def _all(self) -> list[_Waiter]:
        return [waiter for line in self._lines.values() for waiter in line]

    def _wake_all(self, waiters: Iterable[_Waiter] | None = None) -> None:
        """Wake the given waiters, by default the first for each lock."""
        for waiter in [line[0] for line in self._lines.values()] if waiters is None else waiters:
            waiter.wake.set()

    async def _keep_places(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            waiters = [waiter for waiter in self._all() if not waiter.trying]
            if not waiters:
                continue
            try:
                there = await self._places.renew([waiter.place for waiter in self._all()])
            except MetadataError as error:
                _log.debug("places in lines of locks not renewed", error=str(error))
                continue
            for waiter in waiters:
                # One that tries, or has left, may have used its ticket up by now.
                still = waiter in self._lines.get(waiter.place[:2], ())
                if waiter.place.ticket not in there and still and not waiter.trying:
                    waiter.lost = True
                    waiter.wake.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except MetadataError as error:
        _log.info("a lock or a place in its line ends with its time", error=str(error))


async def _within(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(None if timeout_s == float("inf") else timeout_s):
            await event.wait()
    except TimeoutError:
        return


def _now_s() -> float:
    return asyncio.get_running_loop().time()
