"""Keeps the callers of this process that wait for locks, first come, first served.

Postgres has a list for each lock, which orders the waiters of all processes; here only the first
waiter for each lock tries, when it hears that the lock may be free, or when the present lease may
be over.

A caller that is cancelled leaves the list, and releases the lock if it got it at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from edge.shares import Shares, TooManyWaiting
from gateway.wait_list import Tried, WaitList, look_after
from metadata.database import Database
from metadata.errors import MetadataError, MetadataUnavailable, OutcomeUnknown
from metadata.locks.locks import Claim, Held, Lock, LockRepository
from metadata.locks.waiters import LAST_TICKET, LockWaiterRepository, Ticket, notifier

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


@dataclass(slots=True, eq=False)
class _Waiter:
    claim: Claim
    repeatable: bool
    place: Ticket
    held: Held
    """The holding that the last try found."""
    failure: MetadataError | None = None
    """The error of the last try."""
    trying: bool = False


class LockWaitList:
    """Keeps the waiting callers of one process; `run` it, and `close` it last."""

    def __init__(self, database: Database, *, locks: LockRepository | None = None) -> None:
        self._locks = locks or LockRepository(database)
        self._places = LockWaiterRepository(database)
        self._notifier = notifier(database, self._notified, self._wake_all)
        self.waits: WaitList[tuple[bytes, str]] = WaitList(
            Shares(MAX_WAITING_IN_ALL, name="lock_waits")
        )
        self._waiters: set[_Waiter] = set()

    async def acquire(self, claim: Claim, wait_s: float, *, repeatable: bool) -> Lock | Held:
        """Return the lock, or its holder when `wait_s` are over. Raises TooManyWaiting,
        TooManyLocks.

        OutcomeUnknown: the caller may repeat the request with the same request id, and gets the
        lock if it was granted. If it cannot repeat it (nobody knows the id), the lock is released
        as soon as that is possible.
        """
        over_s = _now_s() + wait_s
        try:
            got = await self._try(claim, LAST_TICKET, repeatable)
            if isinstance(got, Lock) or wait_s <= 0 or self.waits.draining:
                return got
            return await self._wait(claim, over_s, got, repeatable)
        except OutcomeUnknown:
            if not repeatable:
                self.waits.spawn(self._give_back_unknown(claim))
            raise

    def undo(self, lock: Lock) -> None:
        """Release a lock that no caller was told of, unless it was acquired again since."""
        self.waits.spawn(self._undo(lock))

    async def run(self) -> None:
        """Listen, and keep the waiters' places in Postgres, until cancelled; do nothing until
        somebody waits.
        """
        await look_after(self.waits.needed, self._notifier, self._keep_places)

    async def _wait(self, claim: Claim, over_s: float, held: Held, repeatable: bool) -> Lock | Held:
        key = (claim.tenant_id, claim.name)
        if self.waits.count(key) >= MAX_WAITING:
            raise TooManyWaiting
        with self.waits.place(claim.tenant_id):
            waiter = _Waiter(claim, repeatable, await self._places.join(*key), held)
            self._waiters.add(waiter)
            lock = None
            try:
                wait_s, rank = over_s - _now_s(), waiter.place.ticket
                attempt = partial(self._attempt, waiter)
                lock = await self.waits.wait(key, attempt, wait_s, heard=True, rank=rank)
            finally:
                self._waiters.discard(waiter)
                if lock is None:
                    self.waits.spawn(self._places.leave(waiter.place))
        if lock is None and waiter.failure is not None:
            raise waiter.failure
        return lock or waiter.held

    async def _attempt(self, waiter: _Waiter) -> Tried[Lock]:
        waiter.failure, waiter.trying = None, True
        try:
            got = await self._try(waiter.claim, waiter.place.ticket, waiter.repeatable)
        except (MetadataUnavailable, OutcomeUnknown) as error:
            waiter.failure = error
            return Tried(None, AFTER_FAILURE_S)
        finally:
            waiter.trying = False
        if isinstance(got, Lock):
            return Tried(got)
        waiter.held = got
        most_s = TRY_MOST_S if self._notifier.listening else TRY_MOST_DEAF_S
        return Tried(None, min(max(got.free_in_s + _LATE_S, TRY_LEAST_S), most_s))

    async def _try(self, claim: Claim, ticket: int, repeatable: bool) -> Lock | Held:
        async def undo(acquiring: Awaitable[Lock | Held]) -> None:
            try:
                got = await acquiring
            except OutcomeUnknown:
                if not repeatable:
                    await self._give_back_unknown(claim)
                return
            if isinstance(got, Lock):
                await self._undo(got)

        return await self.waits.to_its_end(self._locks.acquire(claim, ticket), undo)

    async def _undo(self, lock: Lock) -> None:
        await self._give_back(lambda: self._locks.undo(lock), lock.ttl_s)

    async def _give_back_unknown(self, claim: Claim) -> None:
        key = claim.tenant_id, claim.name, claim.owner
        await self._give_back(lambda: self._locks.release_holding(*key), claim.ttl_s)

    async def _give_back(self, release: Callable[[], Awaitable[None]], ttl_s: float) -> None:
        """Release a lock, again and again until it is done or the lease has ended by itself."""
        over_s = _now_s() + ttl_s
        while True:
            try:
                return await release()
            except MetadataError:
                if self.waits.draining or _now_s() >= over_s:
                    raise
            await asyncio.sleep(AFTER_FAILURE_S)

    def _notified(self, tenant_id: bytes, name: str) -> None:
        self.waits.wake((tenant_id, name))

    def _wake_all(self) -> None:
        for key in self.waits.awaited():
            self.waits.wake(key)

    async def _keep_places(self) -> None:
        """Renew the places of all waiters, and take those anew that were lost."""
        asked = [waiter for waiter in self._waiters if not waiter.trying]
        if not asked:
            return
        there = await self._places.renew([waiter.place for waiter in self._waiters])
        for waiter in asked:
            # One that tries, or has left, may have used its ticket up by now.
            if waiter.place.ticket in there or not self._waits_still(waiter):
                continue
            await self._places.join(*waiter.place)
            if waiter not in self._waiters:
                await self._places.leave(waiter.place)

    def _waits_still(self, waiter: _Waiter) -> bool:
        return waiter in self._waiters and not waiter.trying


def _now_s() -> float:
    return asyncio.get_running_loop().time()
