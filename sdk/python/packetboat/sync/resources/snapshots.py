# generated from aio/resources/snapshots.py by generate_sync.py; do not edit
"""Snapshots of what a subscription had not acked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packetboat.calls import snapshots as calls
from packetboat.models import Page, Snapshot
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Snapshots:
    """Snapshots of what a subscription had not acked."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        subscription: str,
        name: str,
        *,
        expires_in_seconds: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Kept for a week unless said otherwise, and with it the messages. Raises Conflict where
        the name is taken. Go back to it by `subscriptions.seek(name, {"snapshot": …})`."""
        return self._sender.send(
            calls.create_snapshot(subscription, name, expires_in_seconds, labels)
        )

    def get(self, name: str) -> Snapshot:
        """Raises NotFound."""
        return self._sender.send(calls.get_snapshot(name))

    def list(self, *, page_size: int = 100) -> Iterator[Snapshot]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_snapshots(page_size, token))

    def page(self, *, page_size: int = 100, page_token: str | None = None) -> Page[Snapshot]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_snapshots(page_size, page_token))

    def delete(self, name: str) -> None:
        """What it alone kept may go."""
        self._sender.send(calls.delete_snapshot(name))
