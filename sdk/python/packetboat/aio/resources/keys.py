"""API keys."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncKeys:
    """API keys."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
