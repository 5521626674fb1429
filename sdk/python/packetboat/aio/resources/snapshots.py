"""Snapshots of what a subscription had not acked."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncSnapshots:
    """Snapshots of what a subscription had not acked."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
