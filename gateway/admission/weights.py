"""Keeps the weights of tenants, as their quotas say, current by the change feed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from metadata.errors import MetadataError
from metadata.tenancy.quotas import QuotaRepository
from metadata.types import Change, ChangeKind

USUAL = 1.0
RETRY_S = 1.0


class Weights:
    """Keeps the weights for one process. Until they are read, all tenants weigh the same."""

    def __init__(self, quotas: QuotaRepository, changed: Callable[[], None]) -> None:
        """`changed` is called when some may be other than before."""
        self._quotas = quotas
        self._changed = changed
        self._weights: Mapping[bytes, float] = {}
        self._stale = asyncio.Event()
        self._stale.set()

    def of(self, tenant_id: bytes) -> float:
        return self._weights.get(tenant_id, USUAL)

    async def on_changes(self, changes: Sequence[Change]) -> None:
        if any(change.kind in (ChangeKind.QUOTA, ChangeKind.RESET) for change in changes):
            self._stale.set()

    async def run(self) -> None:
        """Follow the weights for the life of the process; only cancellation ends this."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            with suppress(MetadataError):
                quotas = await self._quotas.all()
                self._weights = {one.tenant_id: one.weight for one in quotas if one.weight != USUAL}
                self._changed()
                continue
            self._stale.set()
            await asyncio.sleep(RETRY_S)
