"""Follows the limits in Postgres: reads them at the start, then as the change feed reports
changes.

A new or deleted tenant may be exempt from the built-in limits, or no more; so the limits of a
tenant are read again when the tenant itself changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from metadata.counts import Defaults, limit_of
from metadata.errors import MetadataError
from metadata.tenancy.quotas import QuotaRepository, TenantQuota
from metadata.types import Change, ChangeKind

RETRY_S = 0.5
_log = structlog.get_logger("packetboat.quotas")


class Follower(Protocol):
    """Takes limits, as `limiter.Limiter.follow` does."""

    def __call__(self, quotas: Sequence[TenantQuota], *, all_of_them: bool = False) -> None: ...


class LimitCache:
    """Follows the limits; one per process, and a listener of the change feed.

    Until the first reading the platform's limits hold for everybody.
    """

    def __init__(self, quotas: QuotaRepository, follow: Follower) -> None:
        self._quotas = quotas
        self._follow = follow
        self._unread = True
        self._stale: set[bytes] = set()
        self._wake = asyncio.Event()

    async def on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind in {ChangeKind.QUOTA, ChangeKind.TENANT}:
                self._stale.add(change.tenant_id)
            elif change.kind is ChangeKind.RESET:
                self._unread = True
        if self._stale or self._unread:
            self._wake.set()

    async def run(self) -> None:
        """Read limits for the life of the process; only cancellation ends it."""
        while True:
            try:
                await self._read()
            except MetadataError as error:
                _log.warning("limits not read", error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            await self._wake.wait()
            self._wake.clear()

    async def _read(self) -> None:
        """Read changed limits; raises MetadataError, after which it is to be called again."""
        if self._unread:
            self._unread = False
            try:
                self._follow(await self._quotas.all(), all_of_them=True)
            except MetadataError:
                self._unread = True
                raise
        while self._stale:
            tenant_id = next(iter(self._stale))
            self._stale.discard(tenant_id)
            try:
                self._follow([await self._quotas.get(tenant_id)])
            except MetadataError:
                self._stale.add(tenant_id)
                raise


class TenantLimit:
    """One limit of every tenant, for callers that enforce it by themselves."""

    def __init__(self, quota: str, defaults: Defaults) -> None:
        self._quota = quota
        self._default = limit_of(quota, defaults)
        self._exempt = limit_of(quota, defaults, exempt=True)
        self._own: dict[bytes, float] = {}

    def follow(self, quotas: Sequence[TenantQuota], *, all_of_them: bool = False) -> None:
        """Use the present limits, as a `Follower`."""
        if all_of_them:
            self._own.clear()
        for one in quotas:
            self._own.pop(one.tenant_id, None)
            if self._quota in one.limits:
                self._own[one.tenant_id] = one.limits[self._quota] or 0.0
            elif one.exempt:
                self._own[one.tenant_id] = self._exempt

    def of(self, tenant_id: bytes) -> float:
        """Return a tenant's limit; 0 for none."""
        return self._own.get(tenant_id, self._default)

    @property
    def any(self) -> bool:
        """Whether some tenant has a limit."""
        return bool(self._default) or any(self._own.values())
