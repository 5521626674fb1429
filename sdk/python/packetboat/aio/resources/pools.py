# Generated from openapi/: `make generate`. Do not edit.
"""Pools: the most tasks of a kind of work that run at once, over all workers."""

from __future__ import annotations

from collections.abc import AsyncIterator

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import jobs as calls
from packetboat.models import Page
from packetboat.models.jobs import Pool


class AsyncPools:
    """Pools: the most tasks of a kind of work that run at once, over all workers."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def put(
        self, name: str, *, max_running: int | None, timeout_s: float | None = None
    ) -> Pool:
        """Create or change the pool; None is no limit."""
        return await self._sender.send(calls.put_pool(name, max_running), timeout_s)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Pool:
        """Return the pool, with the numbers of its tasks that run and wait."""
        return await self._sender.send(calls.get_pool(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> AsyncIterator[Pool]:
        """Iterate over pools that were made or have tasks, page by page."""
        return every(self._sender, lambda token: calls.list_pools(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Pool]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_pools(page_size, page_token), timeout_s)

    async def delete(self, name: str, *, timeout_s: float | None = None) -> None:
        """Delete the limit of the pool; its tasks stay."""
        await self._sender.send(calls.delete_pool(name), timeout_s)
