# Generated from openapi/: `make generate`. Do not edit.
"""Snapshots of the messages that a subscription had not acked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import messaging as calls
from packetboat.models import Page, Snapshot


class AsyncSnapshots:
    """Snapshots of the messages that a subscription had not acked."""

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
        """Take a snapshot, which is kept for a week unless `expires_in_seconds` is given, and with
        it the messages. Raise Conflict where the name is taken. Go back to it by
        `subscriptions.seek(name, {"snapshot": …})`."""
        return await self._sender.send(
            calls.create_snapshot(subscription, name, expires_in_seconds, labels), timeout_s
        )

    async def get(self, name: str, *, timeout_s: float | None = None) -> Snapshot:
        """Return the snapshot. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_snapshot(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Snapshot]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_snapshots(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Snapshot]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_snapshots(page_size, page_token), timeout_s)

    async def delete(self, name: str, *, timeout_s: float | None = None) -> None:
        """Delete the snapshot; messages that nothing else keeps may go."""
        await self._sender.send(calls.delete_snapshot(name), timeout_s)
