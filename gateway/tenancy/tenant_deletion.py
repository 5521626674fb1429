"""Removing a tenant: an intent in Postgres, its topics as topics go, the rest, and its row last.

Each step is idempotent and the intent is durable first, so any gateway process that finds a tenant
`deleting` continues.

    deleting (credentials refused) → every topic deleted, its queues too → rows gone → tenant gone

Topics that cannot be removed now (the store is away) are `deleting` as well, and TopicLifecycle
goes on with them: the tenant stays until the last of them is gone.
"""

from __future__ import annotations

import asyncio

import structlog

from gateway.topics.lifecycle import TopicLifecycle
from metadata.errors import MetadataError, NotFound
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Tenant

EVERY_S = 15.0
AGAIN_S = 1.0
"""Seconds between rounds while a tenant is left to be finished."""
TOPICS_AT_ONCE = 20
_log = structlog.get_logger("packetboat.tenants")


class TenantDeletion:
    """Owns nothing but the order of the steps."""

    def __init__(
        self, tenants: TenantRepository, topics: TopicRepository, lifecycle: TopicLifecycle
    ) -> None:
        self._tenants = tenants
        self._topics = topics
        self._lifecycle = lifecycle
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look now for a tenant to delete."""
        self._wake.set()

    async def run(self) -> None:
        """Delete tenants for the life of the process; resume at once a deletion that
        another left unfinished.
        """
        pause_s = 0.0
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                pause_s = AGAIN_S if await self.round() else EVERY_S
            except MetadataError as error:
                pause_s = EVERY_S
                _log.info("deleting of tenants put off", error=str(error))

    async def round(self) -> int:
        """Try once to delete each tenant; return how many are left. Raises MetadataError."""
        left = 0
        for tenant in await self._tenants.deleting():
            left += not await self.step(tenant)
        return left

    async def step(self, tenant: Tenant) -> bool:
        """Return whether the tenant is gone. Raises MetadataError."""
        await self._delete_topics(tenant.tenant_id)
        if await self._tenants.has_topics(tenant.tenant_id):
            return False
        await self._tenants.purge(tenant.tenant_id)
        await self._tenants.remove(tenant.tenant_id)
        _log.info("tenant removed", tenant=tenant.name)
        return True

    async def _delete_topics(self, tenant_id: bytes) -> None:
        while True:
            page = await self._topics.page(tenant_id, page_size=TOPICS_AT_ONCE)
            for topic in page.items:
                try:
                    await self._lifecycle.delete(tenant_id, topic.name, None)
                except NotFound:
                    continue  # another process was there before
            if not page.items:
                return
