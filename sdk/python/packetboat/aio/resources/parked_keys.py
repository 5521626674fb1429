"""Keys of ordered subscriptions that wait aside."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncParkedKeys:
    """Keys of ordered subscriptions that wait aside."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
