"""What a tenant used, per hour."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncUsage:
    """What a tenant used, per hour."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
