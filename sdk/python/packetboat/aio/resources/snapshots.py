"""Snapshots of what a subscription had not acked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import snapshots as calls
from packetboat.models import Page, Snapshot


class AsyncSnapshots:
    """Snapshots of what a subscription had not acked."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        subscription: str,
        name: str,
        *,
        expires_in_seconds: int | None = None,
        labels: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Snapshot:
        """Kept for a week unless said otherwise, and with it the messages. Raises Conflict where
        the name is taken. Go back to it by `subscriptions.seek(name, {"snapshot": …})`."""
        return await self._sender.send(
            calls.create_snapshot(subscription, name, expires_in_seconds, labels), timeout_s
        )

    async def get(self, name: str, *, timeout_s: float | None = None) -> Snapshot:
        """Raises NotFound."""
        return await self._sender.send(calls.get_snapshot(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Snapshot]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_snapshots(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Snapshot]:
        """One page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_snapshots(page_size, page_token), timeout_s)

    async def delete(self, name: str, *, timeout_s: float | None = None) -> None:
        """What it alone kept may go."""
        await self._sender.send(calls.delete_snapshot(name), timeout_s)
