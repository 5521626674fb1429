"""Who changed what."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncAudit:
    """Who changed what."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
