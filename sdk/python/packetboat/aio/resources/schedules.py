"""Messages that are published by the clock."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncSchedules:
    """Messages that are published by the clock."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
