"""Clients that get access tokens with a secret."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncClients:
    """Clients that get access tokens with a secret."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
