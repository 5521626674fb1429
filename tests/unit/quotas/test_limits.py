"""The limits that a process follows, by the change feed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gateway.quotas.limits import LimitCache
from metadata.tenancy.quotas import TenantLimit, TenantQuota
from metadata.types import Change, ChangeKind

TENANT = bytes(15) + b"t"


@dataclass
class Source:
    """Rows of Postgres, as another process changes them."""

    found: dict[bytes, TenantQuota] = field(default_factory=dict)

    async def get(self, tenant_id: bytes) -> TenantQuota:
        return self.found.get(tenant_id, TenantQuota(tenant_id))

    async def all(self) -> tuple[TenantQuota, ...]:
        return tuple(self.found.values())


async def _turns() -> None:
    """Let the book read all that it was told of: the source answers without a pause."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_tenant_that_an_earlier_release_makes_is_exempt_at_once() -> None:
    """A process of an earlier release may make tenants while this one runs."""
    source, limits = Source(), TenantLimit("stored_bytes", {})
    book = LimitCache(source, limits.follow)
    running = asyncio.create_task(book.run())
    try:
        await _turns()
        assert limits.of(TENANT) > 0
        source.found[TENANT] = TenantQuota(TENANT, exempt=True)
        await book.on_changes([Change(1, ChangeKind.TENANT, TENANT, TENANT, "t")])
        await _turns()
        assert limits.of(TENANT) == 0
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
