"""Keeps the lease of this process: registers it, renews it each second, replaces a lost one.

The new lease has a new incarnation. Each renewal carries our load, and brings the list of live
forwarders.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from metadata.delivery.leases import Lease, LeaseRepository
from metadata.errors import LeaseLost, MetadataError
from metadata.lease import RENEW_EVERY_S
from subscribe_forwarder import metrics

if TYPE_CHECKING:
    from subscribe_forwarder.fleet.fleet import Fleet

ROLE = "subscribe"
RETRY_S = 0.25
MIN_BETWEEN_S = 0.2
"""Seconds between two renewals, if a caller requests one early."""
_log = structlog.get_logger("packetboat.subscribe")


class LeaseKeeper:
    """Keeps the lease by our own clock, which stops before Postgres' does."""

    def __init__(
        self,
        leases: LeaseRepository,
        holder: Fleet,
        *,
        address: Callable[[], str],
        weight: float = 1.0,
        load: Callable[[], bytes | None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        self._leases = leases
        self._holder = holder
        self._address = address
        self._weight = weight
        self._load = load
        self._clock = clock
        self.lease: Lease | None = None
        self._incarnation = os.urandom(16)
        self._reason: str | None = "starting"
        self._stopping = False
        self._early = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        """Whether the lease is held, by our own clock."""
        lease = self.lease
        return lease is not None and lease.held(self._clock())

    @property
    def missing_reason(self) -> str | None:
        """The reason for which there is no lease, for readiness; None while it is held."""
        return self._reason if self._reason or self.held else "lease not held"

    def start(self) -> None:
        """Keeps it from now on; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    def renew_early(self) -> None:
        """Somebody may be gone: asks who is alive."""
        self._early.set()

    def drain(self) -> None:
        """Keep the lease, but do not count it as held for readiness any more."""
        self._stopping = True
        self._reason = "stopping"

    async def stop(self) -> None:
        """Stop renewing the lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def leave(self, timeout_s: float) -> bool:
        """Releases everything claimed under it, and keeps it; whether Postgres could be told."""
        lease = self.lease
        if lease is None:
            return False
        with suppress(MetadataError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._leases.leave(lease.incarnation)
                return True
        return False

    async def release(self, timeout_s: float) -> None:
        """Gives it up, with every unit claimed under it, if Postgres can be told."""
        lease, self.lease = self.lease, None
        metrics.lease_held.set(0)
        if lease is not None:
            with suppress(MetadataError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._leases.release(lease.incarnation)

    async def _keep(self) -> None:
        """Keep the lease for the life of the process; only cancellation ends it."""
        while True:
            try:
                await self._keep_once()
            except MetadataError as error:
                if not isinstance(error, LeaseLost):
                    await asyncio.sleep(RETRY_S)
            except Exception as error:
                _log.error("lease loop failed", exc_info=error)
                await asyncio.sleep(RETRY_S)

    async def _keep_once(self) -> None:
        incarnation = self._incarnation
        try:
            self.lease = await self._leases.register(
                incarnation, role=ROLE, address=self._address(), weight=self._weight
            )
        except LeaseLost:
            self._incarnation = os.urandom(16)
            raise
        self._incarnation = os.urandom(16)  # of the next lease; an unknown outcome kept this one
        self._holder.lease_began(incarnation)
        if not self._stopping:
            self._reason = None
        metrics.lease_held.set(1)
        _log.info("lease held", incarnation=incarnation.hex())
        try:
            await self._renew(incarnation)
        finally:
            metrics.lease_held.set(0)

    async def _renew(self, incarnation: bytes) -> None:
        """Renew the lease at once, which tells the live processes, and each second until it
        is lost.
        """
        renewed_s = self._clock() - RENEW_EVERY_S
        while True:
            await self._wait(renewed_s)
            renewed_s = self._clock()
            held = self.held
            try:
                async with asyncio.timeout(RENEW_EVERY_S):
                    lease = await self._leases.renew(incarnation, role=ROLE, load=self._load())
            except LeaseLost:
                if not self._stopping:
                    self._reason = "lease lost"
                self.lease = None
                _log.warning("lease lost", incarnation=incarnation.hex())
                raise
            except (MetadataError, TimeoutError):
                renewed_s -= RENEW_EVERY_S - RETRY_S
                continue
            self.lease = lease
            self._holder.lease_renewed(lease, late=not held)

    async def _wait(self, renewed_s: float) -> None:
        """Wait until the next renewal is due, or somebody asks for it."""
        wait_s = max(0.0, renewed_s + RENEW_EVERY_S - self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await asyncio.sleep(min(wait_s, MIN_BETWEEN_S))
                await self._early.wait()
        self._early.clear()
