"""The leadership of one scheduler, which holds a lock; the others wait for its lease to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from metadata.errors import LeaseLost, MetadataError
from metadata.ids import new_uid
from metadata.lease import RENEW_EVERY_S
from metadata.locks.locks import Lock, LockRepository
from scheduler import metrics
from scheduler.term import Term

LOCK_NAME = "scheduler"
TRY_EVERY_S = 0.5
AFTER_FAILURE_S = 1.0
RETRY_S = 0.1
_log = structlog.get_logger("packetboat.scheduler")

Work = Callable[[Term, Callable[[], Lock]], Awaitable[None]]
"""Does the work of a term; it is cancelled when the lease ends and may raise MetadataError."""


class Leader:
    """Takes the lock whenever it is free, and runs `work` for as long as it is held."""

    def __init__(self, locks: LockRepository, work: Work, *, name: str = LOCK_NAME) -> None:
        self._locks = locks
        self._work = work
        self._name = name
        self._lock: Lock | None = None

    @property
    def leading(self) -> bool:
        return self._lock is not None and self._lock.held(time.monotonic())

    async def run(self) -> None:
        """Try to lead until this is cancelled; then release the lock after the work has ended."""
        while True:
            try:
                self._lock = await self._locks.take(self._name, new_uid())
            except MetadataError as error:
                _log.debug("the lock can't be asked for", error=str(error))
            if self._lock is None:
                await asyncio.sleep(TRY_EVERY_S)
                continue
            _log.info("leading", fence=self._lock.fence)
            metrics.leading.set(1)
            try:
                await self._lead()
            finally:
                metrics.leading.set(0)
                await self._give_back()
            await asyncio.sleep(AFTER_FAILURE_S)

    async def _lead(self) -> None:
        """Do the work until the lease ends or the work fails."""
        term = Term()
        term.spawn(self._renew())
        term.spawn(self._begin(term))
        try:
            await term.wait()
        except LeaseLost as error:
            _log.warning("no longer leading", error=str(error))
        except MetadataError as error:
            _log.warning("leading put off", error=f"{error.code}: {error}")
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("the scheduler failed; it begins anew")
        finally:
            await term.end()

    async def _begin(self, term: Term) -> None:
        await self._work(term, self.held)

    def held(self) -> Lock:
        """Return the lock as it was last renewed; raises LeaseLost when its lease may be over."""
        lock = self._lock
        if lock is None or not lock.held(time.monotonic()):
            raise LeaseLost("the lease may be over")
        return lock

    async def _renew(self) -> None:
        wait_s = RENEW_EVERY_S
        while True:
            await asyncio.sleep(max(0.0, min(wait_s, self.held().valid_until_s - time.monotonic())))
            wait_s = RENEW_EVERY_S
            try:
                self._lock = await self._locks.renew(self.held())
            except LeaseLost:
                raise
            except MetadataError as error:
                _log.info("renewal put off", error=str(error))
                wait_s = RETRY_S

    async def _give_back(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            try:
                await self._locks.release(lock)
            except MetadataError as error:
                _log.info("the lock ends with its lease", error=str(error))
