"""A lock that is held while a block runs, and renewed by a task."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.errors import Conflict, LeaseLost, PacketboatError
from packetboat.lock_lease import LockLease, goes_on, wait_seconds
from packetboat.models import Lock


class AsyncHolding:
    """A lock that is held from the start of the block, unless it is lost."""

    def __init__(
        self,
        sender: AsyncSender,
        name: str,
        ttl_s: float,
        wait_s: float | None,
        holder: str | None,
        labels: Mapping[str, str] | None,
    ) -> None:
        self.name = name
        self._sender = sender
        self._ttl_s = ttl_s
        self._wait_s = wait_s
        self._holder = holder
        self._labels = labels
        self._lease: LockLease | None = None
        self._error: PacketboatError | None = None
        self._was_lost = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    @property
    def fence(self) -> int:
        """The fencing token, higher than that of every earlier holder.

        Let the protected resource refuse lower ones. Read it before each write: it may grow.
        """
        return self._held().lock.fencing_token

    @property
    def lost(self) -> bool:
        """True if another holder may have the lock."""
        return self._error is not None or self._held().left_s(time.monotonic()) <= 0

    def check(self) -> None:
        """Raise LeaseLost if the lock is lost."""
        if self.lost:
            raise LeaseLost(f"the lock {self.name!r} is lost") from self._error

    async def wait_lost(self) -> None:
        """Wait until the lock is lost."""
        await self._was_lost.wait()

    async def __aenter__(self) -> AsyncHolding:
        if self._lease is not None:
            raise RuntimeError("hold it anew for each block")
        self._lease = await self._acquired()
        if self._lease.renew_in_s(time.monotonic()) == 0:
            await self._renewed(self._lease)
        self._keeping = asyncio.create_task(self._keep(), name=f"packetboat-lock-{self.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._keeping is not None
        self._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeping
        lost = self.lost
        await self._release()
        if lost and error is None:
            raise LeaseLost(f"the lock {self.name!r} was lost") from self._error

    async def _acquired(self) -> LockLease:
        request_id, began_s = secrets.token_hex(16), time.monotonic()
        while True:
            asked_s = time.monotonic()
            wait = wait_seconds(self._wait_s, asked_s - began_s)
            call = calls.acquire_lock(
                self.name, self._ttl_s, wait, self._holder, request_id, self._labels
            )
            try:
                return LockLease(await self._sender.send(call), asked_s)
            except Conflict as error:
                if not goes_on(error, self._wait_s, time.monotonic() - began_s):
                    raise

    async def _keep(self) -> None:
        """Renews until the lock is lost."""
        while self._error is None:
            lease = self._held()
            await asyncio.sleep(lease.renew_in_s(time.monotonic()))
            try:
                await self._renewed(lease)
            except PacketboatError as error:
                pause_s = lease.again_in_s(error, time.monotonic())
                if pause_s is None:
                    self._error = error
                    self._was_lost.set()
                else:
                    await asyncio.sleep(pause_s)

    async def _renewed(self, lease: LockLease) -> None:
        asked_s = time.monotonic()
        call = calls.renew_lock(self.name, lease.lock.lock_id, self._ttl_s)
        left_s = max(lease.left_s(asked_s), self._ttl_s / 3)
        lock: Lock = await self._sender.send(call, timeout_s=left_s)
        self._lease = LockLease(lock, asked_s)

    async def _release(self) -> None:
        """Release the lock; if this fails, the lease ends by itself."""
        lease = self._held()
        with suppress(PacketboatError):
            call = calls.release_lock(self.name, lease.lock.lock_id)
            await self._sender.send(call, timeout_s=self._ttl_s)

    def _held(self) -> LockLease:
        if self._lease is None:
            raise RuntimeError("not held yet: use it in a with statement")
        return self._lease
