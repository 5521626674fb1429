"""Subscriptions: make, change, move, pause, and see what they have to do."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncSubscriptions:
    """Subscriptions: make, change, move, pause, and see what they have to do."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
