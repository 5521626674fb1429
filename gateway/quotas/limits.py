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
