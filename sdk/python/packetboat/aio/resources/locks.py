"""Locks: one client holds each at a time."""

from __future__ import annotations

from collections.abc import Mapping

from packetboat.aio.holding import AsyncHolding
from packetboat.aio.operations.tenancy import AsyncLocksOperations


class AsyncLocks(AsyncLocksOperations):
    """Locks: one client holds each at a time."""

    def hold(
        self,
        name: str,
        *,
        ttl_s: float = 30.0,
        wait_s: float | None = 0.0,
        holder: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> AsyncHolding:
        """Hold the lock for as long as the block goes on, and renew it in the background.

            async with client.locks.hold("nightly", ttl_s=30) as lock:
                write(fence=lock.fence)

        Wait up to `wait_s` for it, None: for ever; then raise Conflict, `lock-held`. When the lock
        is lost, `lock.lost` is true, and `lock.check()` and the end of the block raise LeaseLost.
        """
        return AsyncHolding(self._sender, name, ttl_s, wait_s, holder, labels)
